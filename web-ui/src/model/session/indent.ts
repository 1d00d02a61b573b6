// JSON with lines and indents. Numbers and texts stay as they were written: reading and writing them
// again would round large numbers.

const INDENT = "  ";

/** Longer texts are left as they are: nobody reads them by their indents. */
const CHARS_MAX = 256 * 1024;

/** The same JSON over several lines; what is no JSON comes back as it is. */
export function indented(json: string): string {
  if (json.length > CHARS_MAX) return json;
  try {
    JSON.parse(json);
  } catch {
    return json;
  }
  let [out, depth, at] = ["", 0, 0];
  const line = () => `\n${INDENT.repeat(depth)}`;
  while (at < json.length) {
    const character = json.charAt(at);
    if (character === '"') {
      const end = textEnd(json, at);
      out += json.slice(at, end);
      at = end;
      continue;
    }
    at += 1;
    if (/\s/.test(character)) continue;
    if (character === "{" || character === "[") {
      const next = blanksEnd(json, at);
      if (json.charAt(next) === "}" || json.charAt(next) === "]") {
        out += character + json.charAt(next);
        at = next + 1;
        continue;
      }
      depth += 1;
      out += character + line();
    } else if (character === "}" || character === "]") {
      depth -= 1;
      out += line() + character;
    } else if (character === ",") out += character + line();
    else if (character === ":") out += ": ";
    else out += character;
  }
  return out;
}

function blanksEnd(json: string, begin: number): number {
  let at = begin;
  while (/\s/.test(json.charAt(at))) at += 1;
  return at;
}

function textEnd(json: string, begin: number): number {
  for (let at = begin + 1; at < json.length; at += 1) {
    if (json.charAt(at) === "\\") at += 1;
    else if (json.charAt(at) === '"') return at + 1;
  }
  return json.length;
}
