// What a session cost, by model.

export interface ModelAccount {
  readonly model: string;
  readonly replies: number;
  readonly promptTokens: number;
  readonly cachedTokens: number;
  readonly completionTokens: number;
  /** Millionths of the currency of the server's price table; `null` for a model without a price. */
  readonly costMicros: number | null;
}

/** What is known of the cost; `null` when no model has a price. */
export function cost(models: readonly ModelAccount[]): { micros: number; unpriced: number } | null {
  const priced = models.flatMap((it) => it.costMicros ?? []);
  if (priced.length === 0) return null;
  const micros = priced.reduce((sum, it) => sum + it, 0);
  return { micros, unpriced: models.length - priced.length };
}
