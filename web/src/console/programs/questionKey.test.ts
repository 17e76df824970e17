import assert from "node:assert/strict";
import { test } from "node:test";

import { keyOf } from "./questionKey";

test("keys are made from the texts of questions", () => {
  assert.equal(keyOf("Where do you publish?", new Set()), "where_do_you_publish");
  assert.equal(keyOf("2 größte Kanäle", new Set()), "gro_te_kana_le");
  assert.equal(keyOf("你好", new Set()), "question");
  assert.equal(keyOf("x".repeat(90), new Set()).length, 36);
});

test("a key that is taken gets a number", () => {
  assert.equal(keyOf("Site", new Set(["site", "site_2"])), "site_3");
});
