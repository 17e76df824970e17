import assert from "node:assert/strict";
import { test } from "node:test";

import { groupsOf, toggle } from "./subscriptions";

test("a pattern replaces the events of its kind", () => {
  assert.deepEqual(toggle(["link.created", "payout.paid"], "payout.*", true), ["link.created", "payout.*"]);
  assert.deepEqual(toggle(["link.created", "payout.*"], "payout.*", false), ["link.created"]);
  assert.deepEqual(toggle(["payout.paid"], "payout.failed", true), ["payout.paid", "payout.failed"]);
});

test("event types are grouped by their kinds", () => {
  const types = ["payout.paid", "link.created", "payout.failed"].map((name) => ({ name, description: "" }));
  assert.deepEqual(groupsOf(types).map(({ kind, types }) => [kind, types.length]), [["payout", 2], ["link", 1]]);
});
