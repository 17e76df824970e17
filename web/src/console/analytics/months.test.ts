import assert from "node:assert/strict";
import { test } from "node:test";

import { monthsBefore } from "./months";

test("a period of months begins on the first day of a month, also in another year", () => {
  assert.equal(monthsBefore("2026-12-31", 0), "2026-12-01");
  assert.equal(monthsBefore("2026-03-31", 1), "2026-02-01");
  assert.equal(monthsBefore("2026-12-01", 11), "2026-01-01");
  assert.equal(monthsBefore("2026-02-10", 23), "2024-03-01");
});
