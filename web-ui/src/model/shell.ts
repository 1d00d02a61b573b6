// Lines for a shell.

/** A word for a shell: as it is when that is safe, quoted otherwise. */
export function shellWord(word: string): string {
  return /^[A-Za-z0-9_./:=@%+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
