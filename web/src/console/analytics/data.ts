import { useQuery, useQueryClient } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import { paged } from "../../app/data";
import { usePeriod } from "../PeriodFilters";

/** Loads numbers with the currency of their amounts, and the other currencies in which there are amounts. */
export function useAnalytics<T extends object>(key: readonly unknown[], load: () => Promise<T>) {
  const { api, mode } = useApp();
  const queries = useQueryClient();
  const period = usePeriod();
  return useQuery({
    ...paged,
    queryKey: [mode, "analytics", ...key],
    queryFn: async () => {
      const [numbers, { currency, byCurrency }] = await Promise.all([
        load(),
        queries.fetchQuery({
          queryKey: [mode, "analytics", "summary", period],
          queryFn: async () => unwrap(await api.GET("/api/v1/analytics/summary", { params: { query: period } })),
          staleTime: 60_000,
        }),
      ]);
      return { ...numbers, currency, others: byCurrency.map(({ currency }) => currency).filter((other) => other !== currency) };
    },
  });
}
