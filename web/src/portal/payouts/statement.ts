import type { Schemas } from "../../app/data";

/**
 * The commissions of a payout as CSV (RFC 4180), with the names of the export of commissions.
 * Bonuses and corrections are the last row. No value contains a text of a user.
 */
export function statementCsv(payout: Schemas["PartnerPayoutDetail"]): string {
  const rows = payout.commissions.map((row) => [row.commissionId, row.createdAt, row.eventType, row.approvedAt, row.amountCents, payout.currency]);
  if (payout.adjustmentCents !== 0) rows.push(["", payout.initiatedAt, "adjustment", "", payout.adjustmentCents, payout.currency]);
  const lines = [["id", "createdAt", "eventType", "approvedAt", "amountCents", "currency"], ...rows];
  return lines.map((line) => `${line.map((value) => value ?? "").join(",")}\r\n`).join("");
}
