// A real server on a free port, with a store of its own and a model that plays a script. All of it
// ends with the test.

import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { test as base } from "@playwright/test";

const run = promisify(execFile);

/** Longest that a process may take to come up. */
const PATIENCE_MS = 20_000;
const ASK_EVERY_MS = 50;

/** The binary under test: `$STEPWELL_BIN`, or what `cargo build` made. */
export function stepwell(): string {
  const path =
    process.env["STEPWELL_BIN"] ?? join(import.meta.dirname, "../../target/debug/stepwell");
  if (!existsSync(path)) throw new Error(`${path} is not there: cargo build -p stepwell-cli`);
  return path;
}

/** Settings of the user's own server must not reach a test. */
function cleanEnvironment(home: string): NodeJS.ProcessEnv {
  const ours = Object.entries(process.env).filter(([name]) => !/^(STEPWELL_|XDG_)/.test(name));
  return { ...Object.fromEntries(ours), HOME: home, NO_COLOR: "1", TZ: "UTC" };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  if (address === null || typeof address === "string") throw new Error("no port");
  return address.port;
}

async function untilAnswers(url: string, child: ChildProcess): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline) {
    if (child.exitCode !== null) throw new Error(`it ended with ${child.exitCode}`);
    try {
      if ((await fetch(url)).ok) return;
    } catch {
      // Not yet.
    }
    await new Promise((done) => setTimeout(done, ASK_EVERY_MS));
  }
  throw new Error(`${url} does not answer`);
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}

export class Stage {
  readonly folder = mkdtempSync(join(tmpdir(), "stepwell-web-"));
  private readonly arguments: string[] = [];
  private model: ChildProcess | null = null;
  private server: ChildProcess | null = null;
  private port = 0;

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Starts the model, which says what `script` says (docs/mock-model.md), and the server. */
  async start(script: string, more: readonly string[] = []): Promise<void> {
    const modelPort = await freePort();
    this.port = await freePort();
    const listen = `127.0.0.1:${modelPort}`;
    this.model = this.spawn([
      "mock-model",
      "--listen",
      listen,
      "--script",
      this.file("script.toml", script),
    ]);
    await untilAnswers(`http://${listen}/health`, this.model);
    const model = ["--model-url", `http://${listen}/v1`, "--model", "mock"];
    this.arguments.push(
      "--data",
      join(this.folder, "data"),
      "--listen",
      `127.0.0.1:${this.port}`,
      ...model,
      ...more,
    );
    await this.startServer();
  }

  async startServer(): Promise<void> {
    this.server = this.spawn(["serve", ...this.arguments]);
    await untilAnswers(`${this.url}/health`, this.server);
  }

  /** As `kill -9`: the server gets no chance to do anything. */
  async killServer(): Promise<void> {
    if (this.server !== null) await kill(this.server);
    this.server = null;
  }

  /** Writes a file; gives its path. */
  file(name: string, text: string): string {
    const path = join(this.folder, name);
    writeFileSync(path, text);
    return path;
  }

  /** Runs a command against the server; gives what it printed. */
  async cli(...words: string[]): Promise<string> {
    const options = { env: { ...cleanEnvironment(this.folder), STEPWELL_SERVER: this.url } };
    return (await run(stepwell(), words, options)).stdout;
  }

  /** Runs a line as a person would who copied it: nothing but the line says which server is meant. */
  async shell(line: string): Promise<string> {
    const clean = cleanEnvironment(this.folder);
    const path = `${dirname(stepwell())}${delimiter}${clean["PATH"]}`;
    return (await run("sh", ["-c", line], { env: { ...clean, PATH: path } })).stdout;
  }

  /** Submits a task; gives the session's id. */
  async submit(agentFile: string, task: string, ...more: string[]): Promise<string> {
    const printed = await this.cli("submit", "--json", "--agent", agentFile, ...more, task);
    // With `--wait` more lines follow.
    return (JSON.parse(printed.split("\n")[0] ?? "") as { session_id: string }).session_id;
  }

  async end(): Promise<void> {
    await this.killServer();
    if (this.model !== null) await kill(this.model);
    rmSync(this.folder, { recursive: true, force: true });
  }

  private spawn(words: string[]): ChildProcess {
    const log = openSync(join(this.folder, "log"), "a");
    return spawn(stepwell(), words, {
      env: cleanEnvironment(this.folder),
      stdio: ["ignore", log, log],
    });
  }
}

/** A test with a stage that is not started yet. */
export const test = base.extend<{ stage: Stage }>({
  // biome-ignore lint/correctness/noEmptyPattern: the runner reads the pattern
  stage: async ({}, use) => {
    const stage = new Stage();
    await use(stage);
    await stage.end();
  },
});
