import assert from "node:assert/strict";
import { test } from "node:test";

import { decimal, exponent, Format, minorUnits } from "./format";

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

test("500 random amounts are formatted exactly", () => {
  let seed = 7;
  const random = () => (seed = (seed * 48271) % 2147483647);
  for (let i = 0; i < 500; i++) {
    const currency = ["JPY", "EUR", "KWD"][i % 3] as string;
    // Amounts have 1 to 15 digits, and every other one is negative.
    const amount = (i % 2 ? -1 : 1) * ((random() * 1_000_003) % 10 ** (1 + (i % 15)));
    const digits = exponent(currency);
    const unit = 10n ** BigInt(digits);
    const minor = BigInt(Math.abs(amount));
    const sign = amount < 0 ? "-" : "";
    const fraction = digits ? String(minor % unit).padStart(digits, "0") : "";
    assert.equal(decimal(amount, digits), `${sign}${minor / unit}${digits ? `.${fraction}` : ""}`);
    for (const [language, group, point] of [["en", ",", "."], ["de", ".", ","]] as const) {
      const whole = String(minor / unit).replace(/\B(?=(\d{3})+$)/g, group);
      const shown = new Format(language).money(amount, currency).replace(/[^\d.,-]/g, "");
      assert.equal(shown, `${sign}${whole}${digits ? point + fraction : ""}`, `${amount} ${currency} in ${language}`);
    }
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

test("typed amounts are read in the decimals of the currency", () => {
  for (const [text, digits, want] of [
    ["12.50", 2, 1250],
    ["12,5", 2, 1250],
    [" 7 ", 2, 700],
    ["-3.05", 2, -305],
    ["1234", 0, 1234],
    ["1.234", 3, 1234],
    ["1.234", 2, null],
    ["12.5", 0, null],
    ["1,234.50", 2, null],
    ["=1+1", 2, null],
    ["", 2, null],
  ] as const) {
    assert.equal(minorUnits(text, digits), want, text);
  }
});

test("months and countries have names, and what is no country is shown as it is", () => {
  assert.equal(new Format("en", "Europe/Berlin").month("2026-10-31T23:00:00Z"), "Nov 2026");
  assert.equal(new Format("de", "UTC").country("AT"), "Österreich");
  assert.equal(new Format("en", "UTC").country("T1"), "T1");
});
