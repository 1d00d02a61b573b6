import assert from 'node:assert/strict';
import { test } from 'node:test';

import { formatDate, parseDate } from '../src/dates.js';

test('reads day, month and year in this order', () => {
  assert.equal(formatDate(parseDate('24.12.2026')), '2026-12-24');
  assert.equal(formatDate(parseDate('3/4/2026')), '2026-04-03');
});

test('refuses a day that does not exist', () => {
  assert.throws(() => parseDate('31.2.2026'), RangeError);
});

test('refuses what is no date', () => {
  assert.throws(() => parseDate('tomorrow'), RangeError);
});
