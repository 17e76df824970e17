import assert from "node:assert/strict";
import { test } from "node:test";

import { partsOf } from "./parts";

/** A preview with numbered lines, of which the first ones are payable. */
const previewOf = (payable: number, total: number, pageSize: number) => async (page: number) => ({
  data: Array.from({ length: total }, (_, index) => ({ partnerName: String(index), excludedBecause: index < payable ? null : "below_minimum" })).slice((page - 1) * pageSize, page * pageSize),
  total,
  totals: [
    { currency: "EUR", payoutCount: payable - 1, amountCents: 1 },
    { currency: "USD", payoutCount: 1, amountCents: 1 },
  ],
});

test("the pages of both parts contain each line once", async () => {
  for (const [payable, total] of [[3, 12], [5, 12], [10, 21], [4, 5], [5, 10], [6, 6]] as const) {
    const load = previewOf(payable, total, 5) as unknown as Parameters<typeof partsOf>[0];
    for (const [part, from, to] of [["payable", 0, payable], ["excluded", payable, total]] as const) {
      const names: string[] = [];
      for (let page = 1; page <= Math.ceil((to - from) / 5); page++) {
        const result = await partsOf(load, part, page, 5);
        assert.deepEqual([result.payable, result.excluded], [payable, total - payable]);
        assert.ok(result.lines.length <= 5);
        names.push(...result.lines.map((line) => line.partnerName));
      }
      assert.deepEqual(names, Array.from({ length: to - from }, (_, index) => String(from + index)));
    }
  }
});
