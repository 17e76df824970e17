import { useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

import { TributaryError, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";

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
  const { mode } = useApp();
  const queries = useQueryClient();
  return useCallback(async () => {
    await Promise.all(["commissions", "conversions", "to-do"].map((list) => queries.invalidateQueries({ queryKey: [mode, list] })));
  }, [mode, queries]);
}

/** The result of a decision about several commissions: those that were changed, and the messages of the others. */
export interface Outcome {
  changed: string[];
  failed: Map<string, string>;
}

/** Returns functions that approve or reject up to 100 commissions. */
export function useBulk() {
  const { api } = useApp();
  const approve = async (commissionIds: string[]) => outcomeOf(await api.PATCH("/api/v1/commissions/bulk-approve", { body: { commissionIds } }));
  const reject = async (commissionIds: string[], code: RejectionCode, reason: string) =>
    outcomeOf(await api.PATCH("/api/v1/commissions/bulk-reject", { body: { commissionIds, code, ...(reason && { reason }) } }));
  return { approve, reject };
}

/** If all failed, the status is 422, and the body has the results too. */
function outcomeOf(result: { data?: Schemas["BulkCommissionsResponse"]; error?: unknown; response: Response }): Outcome {
  const body = result.response.status === 422 ? (result.error as Partial<Schemas["BulkCommissionsResponse"]>) : unwrap(result);
  if (!body.results) throw new TributaryError(result.response, result.error);
  return {
    changed: body.results.filter(({ success }) => success).map(({ commissionId }) => commissionId),
    failed: new Map(body.results.filter(({ success }) => !success).map(({ commissionId, message }) => [commissionId, message ?? ""])),
  };
}
