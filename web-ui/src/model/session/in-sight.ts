// Where a list of rows must be scrolled to, in pixels.

/** A list of `count` rows of that height, and what is in sight of it. */
export interface Sight {
  readonly offset: number;
  readonly height: number;
  readonly rowHeight: number;
  readonly count: number;
}

/** The nearest offset to the one it has that brings the row into sight. */
export function offsetOfRow({ offset, height, rowHeight, count }: Sight, row: number): number {
  const [top, bottom] = [row * rowHeight, (row + 1) * rowHeight];
  const end = Math.max(0, count * rowHeight - height);
  return Math.min(end, top, Math.max(offset, bottom - height));
}
