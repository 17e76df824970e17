import assert from "node:assert/strict";
import { test } from "node:test";

import { calculationOf } from "./calculation";

test("the calculation is explained by the amounts", () => {
  const sale = { rateBps: 2000, baseAmountCents: 4900, saleCurrency: "EUR", originalAmountCents: 980, currency: "EUR" };
  assert.equal(calculationOf(sale), "equal");
  assert.equal(calculationOf({ ...sale, baseAmountCents: 4903 }), "equal"); // rounded
  assert.equal(calculationOf({ ...sale, rateBps: 1234, baseAmountCents: 1_000_000, originalAmountCents: 123_437 }), "equal"); // a rounded mean
  assert.equal(calculationOf({ ...sale, originalAmountCents: 500 }), "limited");
  assert.equal(calculationOf({ ...sale, currency: "USD", originalAmountCents: 1050 }), "converted");
  assert.equal(calculationOf({ ...sale, rateBps: null }), null);
});
