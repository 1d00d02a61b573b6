// Text that a model or a tool wrote, made safe to look at: what cannot be seen, or changes how the
// rest is read, is written out.

import { count } from "./words.ts";

/** What a page would obey or not show: controls, marks that turn the direction, what has no width. */
const UNSEEN =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what is looked for
  // biome-ignore lint/suspicious/noMisleadingCharacterClass: each is looked for by itself
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff0-\uffff]|\p{Cs}|[\u{e0000}-\u{e0fff}\u{f0000}-\u{10ffff}]/gu;

/** Also what cannot be told from another character; in prose emoji and typography need these. */
// biome-ignore lint/suspicious/noMisleadingCharacterClass: each is looked for by itself
const ALIKE = /[\u00a0\u1680\u2000-\u200a\u200c\u200d\u202f\u205f\u3000\ufe00-\ufe0f]/gu;

/** Longest run of blanks that is shown as it is where a person decides. */
const BLANKS_MAX = 24;
const LONG_BLANKS = new RegExp(` {${BLANKS_MAX + 1},}`, "g");
/** Longest run of empty lines that is shown as it is where a person decides. */
const EMPTY_LINES_MAX = 4;
const LONG_GAP = new RegExp(`\n{${EMPTY_LINES_MAX + 2},}`, "g");

/** `<U+202E>` for what would not be seen. Line ends of other systems become ours first. */
export function visible(text: string): string {
  return text.replace(/\r\n/g, "\n").replace(UNSEEN, named);
}

/** As `visible`, where a person decides: nothing hides behind blanks or is taken for something else. */
export function exactly(text: string): string {
  return text
    .replace(UNSEEN, named)
    .replace(ALIKE, named)
    .replace(LONG_BLANKS, (run) => `<${run.length} spaces>`)
    .replace(LONG_GAP, (run) => `\n<${run.length - 1} empty lines>\n`);
}

/** How many characters `exactly` writes out, line ends of other systems among them. */
export function hiddenCount(text: string): number {
  return (text.match(UNSEEN)?.length ?? 0) + (text.match(ALIKE)?.length ?? 0);
}

function named(character: string): string {
  const hex = (character.codePointAt(0) ?? 0).toString(16).toUpperCase();
  return `<U+${hex.padStart(4, "0")}>`;
}

/** A text and what is hidden of it. */
export interface Shortened {
  readonly text: string;
  readonly hiddenChars: number;
  readonly hiddenLines: number;
}

/** The beginning of a text: at most so many characters and lines, cut at a line's end if one is near. */
export function beginning(text: string, charsMax: number, linesMax: number): Shortened {
  let end = Math.min(text.length, charsMax);
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1 && at < end; at = text.indexOf("\n", at + 1)) {
    lines += 1;
    if (lines === linesMax) end = at;
  }
  if (end === text.length) return { text, hiddenChars: 0, hiddenLines: 0 };
  const lineEnd = text.lastIndexOf("\n", end);
  if (lineEnd > end / 2) end = lineEnd;
  // Not between the halves of one character.
  else if (/[\ud800-\udbff]/.test(text.charAt(end - 1))) end -= 1;
  const hidden = text.slice(end);
  return { text: text.slice(0, end), hiddenChars: hidden.length, hiddenLines: countLines(hidden) };
}

function countLines(text: string): number {
  let lines = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) lines += 1;
  return lines;
}

/** What is left out, in words. */
export function hiddenWords({ hiddenChars, hiddenLines }: Shortened): string {
  const chars = `${count(hiddenChars)} characters`;
  if (hiddenLines === 0) return `${chars} more`;
  return `${count(hiddenLines)} more ${hiddenLines === 1 ? "line" : "lines"}, ${chars}`;
}
