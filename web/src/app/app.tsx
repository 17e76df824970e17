import { QueryCache, QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createContext, type ReactNode, useContext, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import { RouterProvider } from "react-aria/private/utils/openLink";
import { useLocation, useRouter } from "wouter";

import { createTributary, type Tributary } from "../../../clients/typescript/src/client.js";
import { TributaryError } from "../../../clients/typescript/src/errors.js";
import type { BrowserSession, SessionState } from "./session";

export type { Tributary } from "../../../clients/typescript/src/client.js";
export { TributaryError, unwrap } from "../../../clients/typescript/src/errors.js";

/** An error whose message is a text for the user. */
export class Refusal extends Error {}

/** The mode of the data that a page shows. It is in the address of the page. */
export type Mode = "live" | "test";

interface App {
  session: BrowserSession;
  mode: Mode;
  api: Tributary;
}

const AppContext = createContext<App | null>(null);

/** Returns the session, the mode and the client of the API. */
export function useApp(): App {
  const app = useContext(AppContext);
  if (!app) throw new Error("useApp is used outside AppProvider");
  return app;
}

/** Returns the state of the session, and the page is rendered again when it changes. */
export function useSession(session: BrowserSession): SessionState {
  return useSyncExternalStore(session.subscribe, session.snapshot);
}

/** A failed request is repeated by hand if the service has refused it, and otherwise twice. */
function retry(failures: number, error: Error): boolean {
  const refused = error instanceof TributaryError && error.status < 500;
  return !refused && failures < 2;
}

/** Provides the client of the API, the cache of its answers, and links that do not load the page. */
export function AppProvider({ session, mode, children }: { session: BrowserSession; mode: Mode; children: ReactNode }) {
  const [queries] = useState(
    () => new QueryClient({ queryCache: new QueryCache(), defaultOptions: { queries: { retry, staleTime: 10_000 } } }),
  );
  const state = useSession(session);
  const user = state.status === "in" ? state.user.id : "";
  // What one account has loaded is not shown to the next one.
  useEffect(() => () => queries.clear(), [user, queries]);
  const app = useMemo(
    () => ({
      session,
      mode,
      api: createTributary({ baseUrl: location.origin, credential: session.token, mode, retry: { attempts: 2, totalMs: 5_000 } }),
    }),
    [session, mode],
  );
  const [, navigate] = useLocation();
  const { base } = useRouter();
  return (
    <AppContext value={app}>
      <QueryClientProvider client={queries}>
        <RouterProvider navigate={navigate} useHref={(address) => (address.startsWith("/") ? base + address : address)}>{children}</RouterProvider>
      </QueryClientProvider>
    </AppContext>
  );
}
