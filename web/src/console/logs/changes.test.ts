import assert from "node:assert/strict";
import { test } from "node:test";

import { changesOf } from "./changes";

test("only changed fields are listed, with the path of their names", () => {
  assert.deepEqual(changesOf({ name: "A", rules: { rate: 5, hold: 3 } }, { name: "A", rules: { rate: 7, hold: 3 } }), [{ field: "rules.rate", before: 5, after: 7 }]);
  assert.deepEqual(changesOf(null, { tags: ["a"], note: null }), [
    { field: "tags", before: undefined, after: ["a"] },
    { field: "note", before: undefined, after: null },
  ]);
  assert.deepEqual(changesOf({ url: "x" }, null), [{ field: "url", before: "x", after: undefined }]);
  assert.deepEqual(changesOf(null, null), []);
});
