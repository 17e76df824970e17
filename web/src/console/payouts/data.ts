import { useQuery } from "@tanstack/react-query";

import { type Tributary, TributaryError, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { outcomeOf } from "../bulk";
import { liveInterval, useReloadOf } from "../data";

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
  return useReloadOf("payouts", "to-do");
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
 * Returns a function that marks payouts as paid or failed, up to 100 with a request, and tells after
 * each how many are done. The result maps each refused payout to its message.
 */
export function useMarks() {
  const { api } = useApp();
  return async (marks: Mark[], onProgress: (done: number) => void): Promise<Map<string, string>> => {
    const refused = new Map<string, string>();
    let done = 0;
    const send = async (payouts: Mark[], call: () => Promise<Parameters<typeof outcomeOf<Schemas["BulkPayoutResult"]>>[0]>) => {
      const { failed } = await patient(async () => outcomeOf(await call(), ({ payoutId }) => payoutId));
      for (const [id, message] of failed) refused.set(id, message);
      done += payouts.length;
      onProgress(done);
    };
    for (const payouts of partsOf(marks.filter((mark) => "reference" in mark))) {
      await send(payouts, () => api.PATCH("/api/v1/payouts/bulk-mark-paid", { body: { payouts } }));
    }
    for (const payouts of partsOf(marks.filter((mark) => "reason" in mark))) {
      await send(payouts, () => api.PATCH("/api/v1/payouts/bulk-mark-failed", { body: { payouts } }));
    }
    return refused;
  };
}

/** Divides a list into those of the requests. */
function partsOf<T>(items: T[]): T[][] {
  const most = 100;
  return Array.from({ length: Math.ceil(items.length / most) }, (_, part) => items.slice(part * most, (part + 1) * most));
}

/** Makes a call, and repeats it when the limit of requests allows it. */
async function patient<T>(call: () => Promise<T>): Promise<T> {
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
