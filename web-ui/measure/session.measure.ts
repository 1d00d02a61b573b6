// Measures the session page with a session of 100,000 events, by chromium's own trace, and prints
// the numbers: first paint, a scrub to anywhere, frames while scrolling, elements, memory of the tab.
//
//   cargo build --release -p stepwell-cli -p stepwell-bench && npm run measure

import { readFileSync } from "node:fs";
import { availableParallelism, loadavg } from "node:os";
import { type CDPSession, expect, type Page } from "@playwright/test";
import { longSession } from "../tests/long-session.ts";
import { test } from "../tests/stage.ts";

const EVENTS = Number(process.env["EVENTS"] ?? 100_000);
const LOADS = 5;
const SCRUBS = 20;
const SCROLL_STEPS = 120;

interface Line {
  readonly name: string;
  readonly value: number;
  readonly unit: string;
  readonly goal: number;
}

test("the session page within its budget", async ({ page, stage, browser }) => {
  const release = new URL("../../target/release/", import.meta.url).pathname;
  process.env["STEPWELL_BIN"] ??= `${release}stepwell`;
  process.env["STEPWELL_MAKE_SESSION"] ??= `${release}make-session`;
  await stage.start(`[[step]]\ncontent = "Hello."\n`);
  const { id, events } = await longSession(stage, EVENTS);
  const load = loadavg()[0]?.toFixed(1);
  console.log(`a session of ${events} events; load ${load} on ${availableParallelism()} cores`);
  await page.setViewportSize({ width: 1920, height: 1080 });
  const lines: Line[] = [];
  const url = `${stage.url}/s/${id}`;
  await watchPaint(page);
  // A server that has not read anything of the session, and a browser that has not seen the page.
  await stage.killServer();
  await stage.startServer();
  lines.push(...told(await firstPaint(page, url), "first look: "));
  const loads: Painted[] = [];
  for (let at = 0; at < LOADS; at += 1) loads.push(await firstPaint(page, url));
  lines.push(...told(middle(loads), `middle of ${LOADS} loads: `));
  lines.push(...(await scrubs(page)));
  const tracing = await page.context().newCDPSession(page);
  for (const [name, where] of [
    ["tree", ".tree"],
    ["conversation", ".conversation"],
  ] as const) {
    lines.push(...(await longestFrame(page, tracing, name, where)));
  }
  lines.push(await nodes(page));
  lines.push(...(await memory(tracing, await browser.newBrowserCDPSession())));
  for (const it of lines) console.log(said(it));
  expect(lines.filter((it) => it.value > it.goal).map((it) => it.name)).toEqual([]);
});

function said({ name, value, unit, goal }: Line): string {
  const beside =
    goal === Number.POSITIVE_INFINITY
      ? ""
      : `  ${value <= goal ? "ok" : "MISSED"}, at most ${goal}`;
  return `${name.padEnd(58)} ${value.toFixed(0).padStart(7)} ${unit}${beside}`;
}

/** Milliseconds since the address was opened. */
interface Painted {
  /** The browser's own first paint with content: the page without what must be asked for. */
  readonly page: number;
  /** The frame that shows the newest messages, the header and why it waits. */
  readonly messages: number;
  /** The frame that shows the newest rows of the tree. */
  readonly tree: number;
}

/** A skeleton is a first paint, but what counts is what the person came for. */
function told({ page, messages, tree }: Painted, when: string): Line[] {
  // A first look at the tree reads the whole history; nobody waits for it to read the conversation.
  const treeGoal = when.startsWith("first look") ? Number.POSITIVE_INFINITY : 300;
  return [
    { name: `${when}first paint of the page`, value: page, unit: "ms", goal: 300 },
    { name: `${when}newest messages painted`, value: messages, unit: "ms", goal: 300 },
    { name: `${when}newest rows of the tree painted`, value: tree, unit: "ms", goal: treeGoal },
  ];
}

function middle(all: readonly Painted[]): Painted {
  const of = (which: keyof Painted) =>
    all.map((it) => it[which]).sort((a, b) => a - b)[Math.floor(all.length / 2)] ?? 0;
  return { page: of("page"), messages: of("messages"), tree: of("tree") };
}

/** Notes when the newest message and the newest row of the tree were painted. */
async function watchPaint(page: Page): Promise<void> {
  await page.addInitScript(() => {
    const painted: Record<string, number> = {};
    Reflect.set(window, "painted", painted);
    const wanted = {
      messages: ".message:not(.is-unread)",
      tree: ".tree-row:not(.is-unread)",
    };
    const look = () => {
      for (const [name, selector] of Object.entries(wanted)) {
        if (painted[name] !== undefined || document.querySelector(selector) === null) continue;
        painted[name] = Number.POSITIVE_INFINITY;
        // It is in the page now; by the next frame this one was painted.
        requestAnimationFrame(() => {
          painted[name] = performance.now();
        });
      }
      if (Object.keys(painted).length < Object.keys(wanted).length) requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  });
}

async function firstPaint(page: Page, url: string): Promise<Painted> {
  await page.goto("about:blank");
  await page.goto(url);
  await page.locator(".scrubber-live.is-over").waitFor();
  await page.waitForFunction(() => {
    const painted = Reflect.get(window, "painted") as Partial<Painted> | undefined;
    return Number.isFinite(painted?.messages) && Number.isFinite(painted?.tree);
  });
  return page.evaluate(() => {
    const first = performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? 0;
    const painted = Reflect.get(window, "painted") as Omit<Painted, "page">;
    return { ...painted, page: first };
  });
}

/** From the press on the strip until the conversation of that moment is there. */
async function scrubs(page: Page): Promise<Line[]> {
  const all: number[] = [];
  for (let at = 0; at < SCRUBS; at += 1) {
    // Everywhere, and never twice near the same place.
    const part = ((at * 0.618) % 1) * 0.98 + 0.01;
    const took = await page.evaluate(async (part) => {
      const track = document.querySelector(".scrubber-track");
      if (track === null) throw new Error("no strip");
      const box = track.getBoundingClientRect();
      const place = { clientX: box.left + box.width * part, clientY: box.top + 4, pointerId: 1 };
      const begin = performance.now();
      track.dispatchEvent(new PointerEvent("pointerdown", { ...place, bubbles: true }));
      track.dispatchEvent(new PointerEvent("pointerup", { ...place, bubbles: true }));
      const wanted = () => track.getAttribute("aria-valuenow");
      const frame = () => new Promise((done) => requestAnimationFrame(done));
      for (;;) {
        await frame();
        const past = document.querySelector(".notice.is-past")?.textContent ?? "";
        const isRead =
          past.includes(`event ${wanted()} of`) &&
          document.querySelector(".message:not(.is-unread)") !== null &&
          document.querySelector(".message.is-unread") === null &&
          document.querySelector(".tree-row.is-unread") === null;
        if (isRead) return performance.now() - begin;
      }
    }, part);
    all.push(took);
  }
  all.sort((a, b) => a - b);
  const line = { unit: "ms", goal: 100 };
  return [
    { ...line, name: `the middle of ${SCRUBS} scrubs`, value: all[SCRUBS / 2] ?? 0 },
    { ...line, name: `the longest of ${SCRUBS} scrubs`, value: all.at(-1) ?? 0 },
  ];
}

interface TraceEvent {
  readonly name: string;
  readonly pid: number;
  readonly tid: number;
  /** Microseconds. */
  readonly dur?: number;
  /** Of that on the processor. */
  readonly tdur?: number;
  readonly args?: { readonly name?: string };
}

/** The longest task of the main thread while it scrolls, from chromium's own trace. */
async function longestFrame(
  page: Page,
  tracing: CDPSession,
  name: string,
  where: string,
): Promise<Line[]> {
  const events: TraceEvent[] = [];
  const take = (it: { value: unknown[] }) => events.push(...(it.value as TraceEvent[]));
  tracing.on("Tracing.dataCollected", take);
  await tracing.send("Tracing.start", {
    transferMode: "ReportEvents",
    traceConfig: { includedCategories: ["disabled-by-default-devtools.timeline", "__metadata"] },
  });
  await page.locator(where).hover();
  for (let at = 0; at < SCROLL_STEPS; at += 1) {
    await page.mouse.wheel(0, at < SCROLL_STEPS / 2 ? -700 : 700);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  }
  const complete = new Promise((done) => tracing.once("Tracing.tracingComplete", done));
  await tracing.send("Tracing.end");
  await complete;
  tracing.off("Tracing.dataCollected", take);
  const mains = events.filter((it) => it.args?.name === "CrRendererMain");
  const isMain = (it: TraceEvent) => mains.some(({ pid, tid }) => pid === it.pid && tid === it.tid);
  const tasks = events.filter((it) => it.name === "RunTask" && isMain(it));
  if (tasks.length === 0) throw new Error("the trace has no task of the page");
  const longest = (of: "dur" | "tdur") => Math.max(...tasks.map((it) => it[of] ?? 0)) / 1_000;
  const line = { name: `longest task while the ${name} scrolls`, unit: "ms", goal: 50 };
  return [
    { ...line, value: longest("dur") },
    // Where other programs want the processor, too, this is what the page itself takes of it.
    { ...line, name: `${line.name}, processor`, value: longest("tdur") },
  ];
}

async function nodes(page: Page): Promise<Line> {
  const value = await page.evaluate(() => document.querySelectorAll("*").length);
  return { name: "elements of the page", value, unit: "", goal: 3_000 };
}

async function memory(tracing: CDPSession, browser: CDPSession): Promise<Line[]> {
  await tracing.send("HeapProfiler.enable");
  await tracing.send("HeapProfiler.collectGarbage");
  const { usedSize } = await tracing.send("Runtime.getHeapUsage");
  const { processInfo } = await browser.send("SystemInfo.getProcessInfo");
  const tabs = processInfo.filter((it) => it.type === "renderer").map((it) => ownMegabytes(it.id));
  return [
    { name: "heap of the tab", value: usedSize / 1e6, unit: "MB", goal: 200 },
    { name: "process of the tab", value: Math.max(...tabs), unit: "MB", goal: 200 },
  ];
}

/** What a process takes, what it shares with others counted in part. */
function ownMegabytes(pid: number): number {
  const text = readFileSync(`/proc/${pid}/smaps_rollup`, "utf8");
  return Number(/^Pss:\s+(\d+) kB/m.exec(text)?.[1] ?? 0) / 1_000;
}
