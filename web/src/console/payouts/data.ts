import { useQuery } from "@tanstack/react-query";

import { type Tributary, TributaryError, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { messageOf } from "../../kit/feedback";
import { liveInterval, useReloadOf } from "../data";
import { useTexts } from "../texts";

export type Batch = Schemas["PayoutBatch"];
export type Payout = Schemas["Payout"];

/** The statuses of payouts in the order in which they follow each other. */
export const statuses = ["draft", "pending", "processing", "paid", "failed", "canceled"] as const;

/** Whether a payout waits for its result: it can be marked as paid or failed. */
export function isOpen({ status }: Pick<Payout, "status">): boolean {
  return status === "pending" || status === "processing";
}

/** Returns a function that loads again what a change of a payout changes. */
export function useReload(): () => Promise<void> {
  return useReloadOf("payouts", "to-do", "owed");
}

export function useBatch(id: string) {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "payouts", "batch", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/payouts/batches/{batchId}", { params: { path: { batchId: id } } })),
    refetchInterval: liveInterval,
  });
}

/** Loads all payouts of a batch. */
export async function allPayouts(api: Tributary, batchId: string): Promise<Payout[]> {
  const payouts: Payout[] = [];
  for (let page = 1; ; page++) {
    const { data, total } = unwrap(await api.GET("/api/v1/payouts", { params: { query: { batchId, page, pageSize: 100 } } }));
    payouts.push(...data);
    if (data.length === 0 || payouts.length >= total) return payouts;
  }
}

/** The result of the payment of a payout. */
export type Mark = { payoutId: string } & ({ reference: string; paidAt?: string } | { reason: string });

/**
 * Returns a function that marks payouts as paid or failed, one after the other, and tells after
 * each how many are done. The result maps each refused payout to its message.
 */
export function useMarks() {
  const { api } = useApp();
  const { t } = useTexts();
  return async (marks: Mark[], onProgress: (done: number) => void): Promise<Map<string, string>> => {
    const refused = new Map<string, string>();
    for (const [index, mark] of marks.entries()) {
      try {
        await patient(() => send(api, mark));
      } catch (error) {
        // Without the service, the others would fail too.
        if (!(error instanceof TributaryError) || error.status >= 500 || error.status === 401 || error.status === 403) throw error;
        refused.set(mark.payoutId, messageOf(error, t));
      }
      onProgress(index + 1);
    }
    return refused;
  };
}

async function send(api: Tributary, { payoutId, ...body }: Mark): Promise<void> {
  const params = { path: { payoutId } };
  if ("reason" in body) unwrap(await api.PATCH("/api/v1/payouts/{payoutId}/mark-failed", { params, body }));
  else unwrap(await api.PATCH("/api/v1/payouts/{payoutId}/mark-paid", { params, body }));
}

/** Makes a call, and repeats it when the limit of requests allows it. */
async function patient(call: () => Promise<void>): Promise<void> {
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (!(error instanceof TributaryError) || error.status !== 429) throw error;
      const seconds = error.retryAfter ?? 10;
      await new Promise((resolve) => setTimeout(resolve, seconds * 1000));
    }
  }
}
