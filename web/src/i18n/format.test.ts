import assert from "node:assert/strict";
import { test } from "node:test";

import { decimal, exponent, Format } from "./format";

test("amounts have the decimals of their currency", () => {
  const format = new Format("en", "UTC");
  for (const [amount, currency, text] of [
    [980, "USD", "$9.80"],
    [-980, "USD", "-$9.80"],
    [5, "EUR", "€0.05"],
    [0, "JPY", "¥0"],
    [1234567, "JPY", "¥1,234,567"],
    [1234, "KWD", "KWD 1.234"],
    [12345678901234, "USD", "$123,456,789,012.34"],
    [1050, "RSD", "RSD 10.50"],
  ] as const) {
    assert.equal(format.money(amount, currency).replace("\u00a0", " "), text);
  }
});

test("an amount never loses a minor unit", () => {
  let seed = 7;
  for (let i = 0; i < 500; i++) {
    seed = (seed * 48271) % 2147483647;
    const currency = ["JPY", "EUR", "KWD"][seed % 3] as string;
    const amount = (seed % 2 ? -1 : 1) * seed * (1 + (seed % 1000));
    const digits = exponent(currency);
    assert.equal(BigInt(decimal(amount, digits).replace(".", "")), BigInt(amount), `${amount} ${currency}`);
    const shown = new Format("en").money(amount, currency).replace(/[^\d-]/g, "");
    assert.equal(BigInt(shown), BigInt(amount), `${amount} ${currency}`);
  }
});

test("rates are percentages with at most two decimals", () => {
  const format = new Format("en");
  assert.equal(format.percent(2000), "20%");
  assert.equal(format.percent(1250), "12.5%");
  assert.equal(format.percent(1), "0.01%");
});

test("times are in the given zone", () => {
  assert.equal(new Format("en", "America/New_York").date("2026-01-01T02:00:00Z"), "Dec 31, 2025");
  assert.equal(new Format("de", "UTC").date("2026-01-01T02:00:00Z"), "01.01.2026");
  const now = Date.parse("2026-01-10T00:00:00Z");
  assert.equal(new Format("en").relative("2026-01-08T00:00:00Z", now), "2 days ago");
  assert.equal(new Format("en").relative("2026-01-10T00:00:20Z", now), "this minute");
});
