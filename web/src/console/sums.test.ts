import assert from "node:assert/strict";
import { test } from "node:test";

import { Format } from "../i18n/format";
import { sumsOf } from "./sums";

test("amounts are added only in their own currency", () => {
  const rows = [
    { amountCents: 1200, currency: "USD" },
    { amountCents: 850, currency: "EUR" },
    { amountCents: -200, currency: "USD" },
    { amountCents: 500, currency: "JPY" },
  ];
  assert.equal(sumsOf(rows, new Format("en", "UTC")), "$10.00 + €8.50 + ¥500");
});

test("nothing has no sum", () => {
  assert.equal(sumsOf([], new Format("en", "UTC")), "");
});
