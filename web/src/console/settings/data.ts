import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";

export type Workspace = Schemas["Workspace"];

/** The settings of the workspace. */
export function useWorkspace() {
  const { api, mode } = useApp();
  return useQuery({ queryKey: [mode, "workspace"], queryFn: async () => unwrap(await api.GET("/api/v1/workspace")) });
}

/** Returns a function that changes the given settings. */
export function useUpdateWorkspace(): (body: Schemas["UpdateWorkspaceRequest"]) => Promise<void> {
  const { api, mode, session } = useApp();
  const queries = useQueryClient();
  return useCallback(
    async (body) => {
      const changed = unwrap(await api.PATCH("/api/v1/workspace", { body }));
      queries.setQueryData([mode, "workspace"], changed);
      session.changeWorkspace(changed);
    },
    [api, mode, queries, session],
  );
}
