import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import { useReloadOf } from "../data";

/** The groups of a programme: the first hundred. Without a programme, there are none. */
export function useGroups(programId: string) {
  const { api, mode } = useApp();
  return useQuery({
    enabled: programId !== "",
    queryKey: [mode, "programs", programId, "groups"],
    queryFn: async () =>
      unwrap(await api.GET("/api/v1/programs/{programId}/groups", { params: { path: { programId }, query: { pageSize: 100 } } })).data,
  });
}

/** Returns a function that loads again what a change of a partner changes. */
export function useReload(): () => Promise<void> {
  return useReloadOf("partners", "to-do");
}

/** The tags of a text that separates them with commas. */
export function tagsOf(text = ""): string[] {
  return text.split(",").map((tag) => tag.trim()).filter(Boolean);
}
