// Where this page's data comes from: the server's own store, or an exported file that it only shows.

/** `/view/HASH` while a file is shown, else empty. Every address and every call is below it. */
export const VIEW_BASE = /^\/view\/[0-9a-f]+/.exec(window.location.pathname)?.[0] ?? "";

/** An exported file is shown: everything can be looked at, nothing can be changed. */
export const IS_FILE = VIEW_BASE !== "";

/** A whole link, to be copied. */
export function link(path: string): string {
  return `${window.location.origin}${VIEW_BASE}${path}`;
}
