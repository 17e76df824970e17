import { keepPreviousData, useQuery } from "@tanstack/react-query";

import type { components } from "../../../clients/typescript/src/schema.js";
import type { Tone } from "../kit/feedback";
import { pageSize } from "../kit/page";
import { unwrap } from "./app";
import { get } from "./request";

export type Schemas = components["schemas"];

/** The facts about the installation. They only change when its first workspace is created. */
export function useInstance(): Schemas["Instance"] | undefined {
  return useQuery({
    queryKey: ["instance"],
    queryFn: () => get<Schemas["Instance"]>("/api/v1/instance"),
    staleTime: (query) => (query.state.data?.setupRequired ? 0 : Infinity),
  }).data;
}

/** The options of a query whose page before stays until the next one is loaded. */
export const paged = { placeholderData: keepPreviousData };

/** The parameters of a page of a list. */
export function pageOf(page: number) {
  return { page, pageSize };
}

/** Whether the total of a list is a lower bound. */
export function isCapped(response: Response): boolean {
  return response.headers.get("Total-Capped") === "true";
}

/** The page of a list that a call returns, and whether its total is a lower bound. */
export function listOf<T extends object>(result: { data?: T; error?: unknown; response: Response }): NonNullable<T> & { capped: boolean } {
  return { ...unwrap(result), capped: isCapped(result.response) };
}

/** The tone of a status of a commission, payout or participation. */
export function toneOf(status: string): Tone {
  switch (status) {
    case "approved":
    case "paid":
    case "active":
      return "good";
    case "pending":
    case "processing":
    case "paused":
      return "warn";
    case "rejected":
    case "failed":
    case "suspended":
    case "refunded":
      return "bad";
    default:
      return "info";
  }
}
