import assert from "node:assert/strict";
import { test } from "node:test";

import { instantOf } from "./time";

test("a local time has the offset of its day", () => {
  assert.equal(instantOf("2026-01-31T23:59:59", "Europe/Berlin").toISOString(), "2026-01-31T22:59:59.000Z");
  assert.equal(instantOf("2026-07-31T23:59:59", "Europe/Berlin").toISOString(), "2026-07-31T21:59:59.000Z");
  assert.equal(instantOf("2026-03-29T03:30", "Europe/Berlin").toISOString(), "2026-03-29T01:30:00.000Z");
  assert.equal(instantOf("2026-01-01T00:00", "America/New_York").toISOString(), "2026-01-01T05:00:00.000Z");
  assert.equal(instantOf("2026-01-01T00:00", "UTC").toISOString(), "2026-01-01T00:00:00.000Z");
});
