import { useApp, useSession } from "../app/app";
import { operations, permissions } from "./permissions";

/** An operation of the API that members can call. */
export type Operation = keyof typeof operations;

/**
 * Returns a function that tells whether the member may call an operation. If the workspace
 * requires a second factor, a member without one may only read.
 */
export function useCan(): (operation: Operation) => boolean {
  const { session } = useApp();
  const state = useSession(session);
  if (state.status !== "in") return () => false;
  const { user, workspace } = state;
  const readsOnly = workspace?.requireSecondFactor === true && !user.secondFactor;
  return (operation) => {
    const permission = operations[operation];
    const roles: readonly (string | null)[] = permissions[permission];
    return roles.includes(user.role) && !(readsOnly && permission !== "read dashboards");
  };
}
