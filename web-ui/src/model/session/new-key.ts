// A key of one request: sent again with it, the request is carried out once.

/** 128 random bits. Also where `crypto.randomUUID` is not: pages that do not come over HTTPS. */
export function newKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (it) => it.toString(16).padStart(2, "0")).join("");
}
