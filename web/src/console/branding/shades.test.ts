import assert from "node:assert/strict";
import { test } from "node:test";

import { shadeOf } from "./shades";

test("a colour that is hard to see on a page gets another shade there", () => {
  assert.deepEqual(shadeOf("#0A7f5A", "light"), { color: "#0a7f5a", textColor: "#ffffff" });
  assert.deepEqual(shadeOf("#000000", "light"), { color: "#000000", textColor: "#ffffff" });
  assert.deepEqual(shadeOf("#ffb000", "dark"), { color: "#ffb000", textColor: "#000000" });
  assert.notEqual(shadeOf("#ffb000", "light")?.color, "#ffb000");
  assert.notEqual(shadeOf("#000000", "dark")?.color, "#000000");
});

test("a text that is no colour has no shade", () => {
  for (const text of ["", "#12345", "red", "#gggggg"]) assert.equal(shadeOf(text, "light"), null);
});
