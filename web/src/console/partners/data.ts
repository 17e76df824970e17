import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";

/** The groups of a programme: the first hundred. */
export function useGroups(programId: string) {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "programs", programId, "groups"],
    queryFn: async () =>
      unwrap(await api.GET("/api/v1/programs/{programId}/groups", { params: { path: { programId }, query: { pageSize: 100 } } })).data,
  });
}
