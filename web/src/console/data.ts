import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../app/app";

/** The programmes of the workspace: the first hundred. */
export function usePrograms() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "programs", "all"],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs", { params: { query: { pageSize: 100 } } })).data,
  });
}

/** The milliseconds after which a page that is visible loads again what others change. */
export const liveInterval = 15_000;
