import assert from "node:assert/strict";
import { test } from "node:test";

import { looksLikeIban, validIban } from "./iban";

test("the check digits of an IBAN are checked", () => {
  // These are examples of the registry of ISO 13616.
  for (const iban of ["GB29 NWBK 6016 1331 9268 19", "de89370400440532013000", "NO93 8601 1117 947", "MT84MALT011000012345MTLCAST001S"]) {
    assert.ok(looksLikeIban(iban) && validIban(iban), iban);
  }
  assert.ok(!validIban("DE89 3704 0044 0532 0130 01"));
  assert.ok(!validIban("DE98 3704 0044 0532 0130 00"));
});

test("an account number is no IBAN", () => {
  for (const text of ["123456789", "DE89", "021000021/123456789"]) assert.ok(!looksLikeIban(text), text);
});
