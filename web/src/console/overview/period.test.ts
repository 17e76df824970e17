import assert from "node:assert/strict";
import { test } from "node:test";

import { changeOf, daysBefore } from "./period";

test("a period begins on the day before, also across months and changes of the clock", () => {
  assert.equal(daysBefore("2026-03-01", 1), "2026-02-28");
  assert.equal(daysBefore("2026-03-30", 6), "2026-03-24");
  assert.equal(daysBefore("2027-01-05", 29), "2026-12-07");
});

test("a change is in basis points of the number before", () => {
  assert.equal(changeOf(150, 100), 5_000);
  assert.equal(changeOf(0, 80), -10_000);
  assert.equal(changeOf(100, 100), 0);
});

test("without a number before, there is no change", () => {
  assert.equal(changeOf(5, 0), null);
  assert.equal(changeOf(5, null), null);
  assert.equal(changeOf(null, 5), null);
});
