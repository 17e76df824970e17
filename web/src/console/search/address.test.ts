import assert from "node:assert/strict";
import { test } from "node:test";

import en from "./en";
import { addressOf } from "./address";

test("each kind of record has a page", () => {
  const kinds = Object.keys(en.kinds) as (keyof typeof en.kinds)[];
  const addresses = kinds.map((kind) => addressOf({ kind, id: "7", title: "a&b", subtitle: null, programId: "p" }));
  assert.deepEqual(addresses, [
    "/programs/p/partners/7",
    "/programs/7",
    "/programs/p?show=codes&search=a%26b",
    "/programs/p?show=links&search=a%26b",
    "/commissions/7",
    "/conversions/7",
    "/payouts/7",
    "/payouts/batches/7",
    "/webhooks/7",
  ]);
});
