import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

import { unwrap, useApp } from "../app/app";

/** The programmes of the workspace: the first hundred. */
export function usePrograms() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "programs", "all"],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs", { params: { query: { pageSize: 100 } } })).data,
  });
}

/** The members of the workspace: the first hundred. */
export function useMembers() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "members", "all"],
    queryFn: async () => unwrap(await api.GET("/api/v1/workspace/members", { params: { query: { pageSize: 100 } } })).data,
  });
}

/** Returns a function that loads again what is shown of these lists: all queries whose keys begin with the mode and a name. */
export function useReloadOf(...lists: string[]): () => Promise<void> {
  const { mode } = useApp();
  const queries = useQueryClient();
  const names = lists.join(" ");
  return useCallback(async () => {
    await Promise.all(names.split(" ").map((list) => queries.invalidateQueries({ queryKey: [mode, list] })));
  }, [mode, names, queries]);
}

/** The milliseconds after which a page that is visible loads again what others change. */
export const liveInterval = 15_000;
