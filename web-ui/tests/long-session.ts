// A long session from `cargo xtask session`, brought into a server.

import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Stage } from "./stage.ts";

const run = promisify(execFile);

/** `$STEPWELL_MAKE_SESSION`, or what `cargo build --workspace --all-targets` made. */
function makeSession(): string {
  const path =
    process.env["STEPWELL_MAKE_SESSION"] ??
    join(import.meta.dirname, "../../target/debug/make-session");
  if (!existsSync(path)) throw new Error(`${path} is not there: cargo build -p stepwell-bench`);
  return path;
}

export interface LongSession {
  readonly id: string;
  readonly events: number;
}

/** Makes a session of about so many events and imports it. */
export async function longSession(stage: Stage, events: number, seed = 1): Promise<LongSession> {
  const file = join(stage.folder, `long-${events}-${seed}.stepwell`);
  const { stdout } = await run(makeSession(), [file, "--events", `${events}`, "--seed", `${seed}`]);
  const said = /^([0-9A-Z]{26}): (\d+) events/.exec(stdout);
  if (said === null) throw new Error(`make-session said: ${stdout}`);
  await stage.cli("import", file);
  return { id: said[1] ?? "", events: Number(said[2]) };
}
