/** Reads "24.12.2026" or "24/12/2026" as a date in UTC. */
export function parseDate(text) {
  const match = /^(\d{1,2})[./](\d{1,2})[./](\d{4})$/.exec(text.trim());
  if (!match) throw new RangeError(`not a date: ${text}`);
  const [, month, day, year] = match.map(Number);
  const date = new Date(Date.UTC(year, month - 1, day));
  if (date.getUTCMonth() !== month - 1) throw new RangeError(`no such day: ${text}`);
  return date;
}

/** Writes a date as "2026-12-24". */
export function formatDate(date) {
  return date.toISOString().slice(0, 10);
}
