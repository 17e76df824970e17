import { useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { outcomeOf } from "../bulk";
import { useReloadOf } from "../data";

export type Commission = Schemas["Commission"];
export type Item = Schemas["CommissionListItem"];
export type RejectionCode = NonNullable<Item["rejectionCode"]>;

/** The reasons for a rejection, in the order of the form. */
export const rejectionCodes = [
  "fraud",
  "self_referral",
  "duplicate",
  "order_canceled",
  "terms_violation",
  "tracking_error",
  "ineligible_partner",
  "test_order",
  "other",
] as const satisfies readonly RejectionCode[];

/** Returns a function that loads again what a decision about commissions changes. */
export function useReload(): () => Promise<void> {
  return useReloadOf("commissions", "conversions", "to-do");
}

/** Returns functions that approve or reject up to 100 commissions. */
export function useBulk() {
  const { api } = useApp();
  const idOf = ({ commissionId }: { commissionId: string }) => commissionId;
  const approve = async (commissionIds: string[]) => outcomeOf(await api.PATCH("/api/v1/commissions/bulk-approve", { body: { commissionIds } }), idOf);
  const reject = async (commissionIds: string[], code: RejectionCode, reason: string) =>
    outcomeOf(await api.PATCH("/api/v1/commissions/bulk-reject", { body: { commissionIds, code, ...(reason && { reason }) } }), idOf);
  return { approve, reject };
}
