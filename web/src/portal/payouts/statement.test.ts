import assert from "node:assert/strict";
import { test } from "node:test";

import { statementCsv } from "./statement";

test("a statement has a row for each commission and one for the corrections", () => {
  const commission = { commissionId: "c1", amountCents: 980, eventType: "purchase", approvedAt: "2026-01-02T00:00:00Z", createdAt: "2026-01-01T00:00:00Z" } as const;
  const payout = { currency: "EUR", adjustmentCents: -500, initiatedAt: "2026-01-03T00:00:00Z", commissions: [commission] } as unknown as Parameters<typeof statementCsv>[0];
  assert.equal(
    statementCsv(payout),
    "id,createdAt,eventType,approvedAt,amountCents,currency\r\n" +
      "c1,2026-01-01T00:00:00Z,purchase,2026-01-02T00:00:00Z,980,EUR\r\n" +
      ",2026-01-03T00:00:00Z,adjustment,,-500,EUR\r\n",
  );
});
