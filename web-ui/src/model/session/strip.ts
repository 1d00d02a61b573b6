// All events of a session, nine bytes each: type, time, and whether a step begins. Everything that
// walks through time asks here.

import { FAMILIES, familyOfEvent } from "./family.ts";

/** Set in a mark when a step begins with its event. */
const STEP_BEGINS = 0x80;

const CAPACITY_MIN = 256;

/** Grows at its end; an older value stays as it was. Event `seq` is at index `seq - 1`. */
export interface Strip {
  readonly length: number;
  readonly types: readonly string[];
  readonly marks: Uint8Array;
  readonly times: Float64Array;
}

export const EMPTY_STRIP: Strip = {
  length: 0,
  types: [],
  marks: new Uint8Array(0),
  times: new Float64Array(0),
};

/** Events as the server packs them. */
export interface StripPage {
  readonly marks: Uint8Array;
  readonly types: readonly string[];
  readonly firstTime: number;
  /** Milliseconds since the event before; 0 for the first. */
  readonly gaps: readonly number[];
}

export function withPage(strip: Strip, page: StripPage): Strip {
  const grown = reserve(strip, page.marks.length, page.types);
  let time = page.firstTime;
  page.marks.forEach((mark, at) => {
    time += page.gaps[at] ?? 0;
    grown.marks[strip.length + at] = mark;
    grown.times[strip.length + at] = time;
  });
  return { ...grown, length: strip.length + page.marks.length };
}

export function withEvent(strip: Strip, type: string, time: number, beginsStep: boolean): Strip {
  const known = strip.types.indexOf(type);
  const place = known === -1 ? strip.types.length : known;
  const types = known === -1 ? [...strip.types, type] : strip.types;
  const grown = reserve(strip, 1, types);
  grown.marks[strip.length] = place | (beginsStep ? STEP_BEGINS : 0);
  grown.times[strip.length] = time;
  return { ...grown, length: strip.length + 1 };
}

function reserve(strip: Strip, more: number, types: readonly string[]): Strip {
  const needed = strip.length + more;
  if (needed <= strip.marks.length) return { ...strip, types };
  const capacity = Math.max(CAPACITY_MIN, needed, strip.marks.length * 2);
  const marks = new Uint8Array(capacity);
  const times = new Float64Array(capacity);
  marks.set(strip.marks.subarray(0, strip.length));
  times.set(strip.times.subarray(0, strip.length));
  return { length: strip.length, types, marks, times };
}

export function typeAt(strip: Strip, seq: number): string {
  if (seq < 1 || seq > strip.length) return "";
  return strip.types[(strip.marks[seq - 1] ?? 0) & ~STEP_BEGINS] ?? "";
}

export function timeAt(strip: Strip, seq: number): number {
  return strip.times[Math.min(Math.max(seq, 1), strip.length) - 1] ?? 0;
}

/** The step that the session is in after that event; 0 before the first. */
export function stepAt(strip: Strip, seq: number): number {
  let step = 0;
  const end = Math.min(seq, strip.length);
  for (let at = 0; at < end; at += 1) step += (strip.marks[at] ?? 0) >> 7;
  return step;
}

/** What one goes through time by. */
export type Unit = "event" | "model" | "tool";

const ENDS: Record<Exclude<Unit, "event">, readonly string[]> = {
  model: ["model_replied", "model_failed"],
  tool: ["tool_finished", "tool_refused", "tool_lost"],
};

/** The nearest moment before or after `seq` at which something of that unit has just ended. */
export function seek(strip: Strip, seq: number, unit: Unit, by: 1 | -1): number | null {
  for (let at = seq + by; at >= 1 && at <= strip.length; at += by) {
    if (unit === "event" || ENDS[unit].includes(typeAt(strip, at))) return at;
  }
  return null;
}

/**
 * The strip as `width` columns: for each how many of its events belong to each family, in the order
 * of `FAMILIES`. With fewer events than columns an event has several.
 */
export function columns(strip: Strip, width: number): Uint32Array {
  const families = strip.types.map((type) => FAMILIES.indexOf(familyOfEvent(type)));
  const found = new Uint32Array(Math.max(0, width) * FAMILIES.length);
  for (let at = 0; at < width && strip.length > 0; at += 1) {
    const first = Math.floor((at * strip.length) / width);
    const end = Math.max(first + 1, Math.floor(((at + 1) * strip.length) / width));
    for (let event = first; event < end; event += 1) {
      const family = families[(strip.marks[event] ?? 0) & ~STEP_BEGINS] ?? 0;
      found[at * FAMILIES.length + family] = (found[at * FAMILIES.length + family] ?? 0) + 1;
    }
  }
  return found;
}
