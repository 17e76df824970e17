import { type ComponentType, type ReactNode, Suspense, useCallback, useEffect, useState } from "react";
import { matchRoute, Redirect, Route, Router, Switch, useLocation, useRouter } from "wouter";

import { LinkButton } from "../kit/controls";
import { Failure, Skeleton } from "../kit/feedback";
import { Page } from "../kit/page";
import { Frame } from "./account/Frame";
import { AppProvider, useApp, useSession } from "./app";
import type { BrowserSession } from "./session";
import { InTimeZone, useDefaultLanguage, useTexts } from "./texts";

/** Pages by their addresses below that of the application. */
export type Routes = Record<string, ComponentType>;

export interface Pages {
  /** The address of the application. The pages of test mode are below test. */
  base: string;
  /** The pages that anybody can open. */
  open: Routes;
  /** The pages for people who are not logged in. */
  loggedOut: Routes;
  /** The pages of people who are logged in. */
  areas: Routes;
  /** The pages outside of base, by their whole addresses. */
  mailed?: Routes;
  /** The menu around the pages of people who are logged in. */
  shell: ComponentType<{ children: ReactNode }>;
  /** Loads the menu while the session is renewed, or while the user logs in. */
  loadShell: () => Promise<unknown>;
}

/** An application with its pages and the session of its user. */
export function Application({ session, pages }: { session: BrowserSession; pages: Pages }) {
  const [path] = useLocation();
  const test = `${pages.base}/test`;
  const isTest = path === test || path.startsWith(`${test}/`);
  const Mailed = pages.mailed?.[path];
  return (
    <Router base={isTest ? test : pages.base}>
      <AppProvider session={session} mode={isTest ? "test" : "live"}>
        <Resumed session={session} loadShell={pages.loadShell}>
          {Mailed ? <Mailed /> : <Routed {...pages} />}
        </Resumed>
      </AppProvider>
    </Router>
  );
}

function Routed(pages: Pages) {
  const [path] = useLocation();
  const { parser } = useRouter();
  // An address such as /programs/:id looks like that of an open page, /:workspace/:program.
  if (Object.keys(pages.areas).some((address) => matchRoute(parser, address, path)[0])) return <LoggedIn {...pages} />;
  return (
    <Switch>
      {Object.entries(pages.open).map(([address, Page]) => (
        <Route key={address} path={address} component={Page} />
      ))}
      {Object.entries(pages.loggedOut).map(([address, Page]) => (
        <Route key={address} path={address}>
          {() => <LoggedOut page={Page} loadShell={pages.loadShell} />}
        </Route>
      ))}
      <Route>{() => <LoggedIn {...pages} />}</Route>
    </Switch>
  );
}

/** Shows the pages when they are loaded and it is known whether this browser is logged in. */
function Resumed({ session, loadShell, children }: { session: BrowserSession; loadShell: Pages["loadShell"]; children: ReactNode }) {
  const { t } = useTexts();
  const state = useSession(session);
  const [error, setError] = useState<unknown>(null);
  const resume = useCallback(() => {
    setError(null);
    session.resume().catch(setError);
    if (session.snapshot().status === "unknown") void loadShell();
  }, [session, loadShell]);
  useEffect(resume, [resume]);
  const waiting = <Frame title={t.app.name}>{error === null ? <Skeleton /> : <Failure error={error} retry={resume} />}</Frame>;
  return state.status === "unknown" ? waiting : <Suspense fallback={waiting}>{children}</Suspense>;
}

/** A page for people who are not logged in. After the login, the page opens that they wanted. */
function LoggedOut({ page: Page, loadShell }: { page: ComponentType; loadShell: Pages["loadShell"] }) {
  const { session } = useApp();
  const next = new URLSearchParams(location.search).get("next");
  useEffect(() => void loadShell(), [loadShell]);
  // Only addresses of this application are followed.
  if (useSession(session).status === "in") return <Redirect to={next && /^\/(?![/\\])/.test(next) ? next : "/"} />;
  return <Page />;
}

function LoggedIn({ areas, shell: Shell }: Pages) {
  const { session } = useApp();
  const [path] = useLocation();
  const state = useSession(session);
  // Accounts have English until a language is chosen, so English does not replace that of the browser.
  useDefaultLanguage(state.status === "in" && state.user.locale === "de" ? "de" : null);
  if (state.status !== "in") {
    const wanted = path + location.search;
    return <Redirect to={wanted === "/" ? "/login" : `/login?next=${encodeURIComponent(wanted)}`} />;
  }
  return (
    <InTimeZone timeZone={state.workspace?.timezone}>
      <Suspense fallback={<Skeleton lines={6} />}>
        <Shell>
          <Suspense fallback={<Skeleton lines={6} />}>
            <Switch>
              {Object.entries(areas).map(([address, Area]) => (
                <Route key={address} path={address} component={Area} />
              ))}
              <Route component={Missing} />
            </Switch>
          </Suspense>
        </Shell>
      </Suspense>
    </InTimeZone>
  );
}

function Missing() {
  const { t } = useTexts();
  return (
    <Page title={t.errors.missing} about={t.errors.missingHint}>
      <LinkButton href="/">{t.errors.home}</LinkButton>
    </Page>
  );
}
