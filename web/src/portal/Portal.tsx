import { type ComponentType, lazy, type ReactNode, Suspense, useCallback, useEffect, useState } from "react";
import { matchRoute, Redirect, Route, Router, Switch, useLocation, useRouter } from "wouter";

import { AppProvider, useApp, useSession } from "../app/app";
import type { BrowserSession } from "../app/session";
import { useDefaultLanguage, useTexts } from "../app/texts";
import { LinkButton } from "../kit/controls";
import { Failure, Skeleton } from "../kit/feedback";
import { Page } from "../kit/page";
import { Frame } from "./account/Frame";
import { Login, Register } from "./account/Login";
import { ProgramPage } from "./join/ProgramPage";

// Only the login, the registration and the page of a programme are loaded at once.
const account = (page: "ForgotPassword" | "ResetPassword" | "Unsubscribe" | "VerifyEmail") =>
  lazy(async () => ({ default: (await import("./account/mailed"))[page] }));
const ForgotPassword = account("ForgotPassword");
const ResetPassword = account("ResetPassword");
const Unsubscribe = account("Unsubscribe");
const VerifyEmail = account("VerifyEmail");
const AcceptInvite = lazy(() => import("./join/AcceptInvite"));

/** The menu is loaded while the session is renewed, or while the partner logs in. */
const loadShell = () => import("./Shell");
const Shell = lazy(loadShell);

/** The pages that anybody can open, by their addresses below /portal. */
const open: Record<string, ComponentType> = {
  "/forgot-password": ForgotPassword,
  "/reset-password": ResetPassword,
  "/verify-email": VerifyEmail,
  "/accept-invite": AcceptInvite,
  "/unsubscribe": Unsubscribe,
};

/** The pages of a partner who is logged in. Each area is loaded when it is opened. */
const areas: Record<string, ComponentType> = {
  "/": lazy(() => import("./home/Home")),
  "/links": lazy(() => import("./links/Links")),
  "/commissions": lazy(() => import("./commissions/Commissions")),
  "/commissions/lookup": lazy(() => import("./commissions/Lookup")),
  "/commissions/:id": lazy(() => import("./commissions/CommissionDetail")),
  "/payouts/method": lazy(() => import("./payouts/MethodForm")),
  "/payouts/:id": lazy(() => import("./payouts/PayoutDetail")),
  "/payouts": lazy(() => import("./payouts/Payouts")),
  "/programs": lazy(() => import("./programs/Programs")),
  "/programs/:id": lazy(() => import("./programs/ProgramDetail")),
  "/notifications": lazy(() => import("./notifications/Notifications")),
  "/settings": lazy(() => import("./settings/Settings")),
};

/** The addresses of the pages in mails, outside of /portal. */
const mailed: Record<string, ComponentType> = {
  "/verify-email": VerifyEmail,
  "/reset-password": ResetPassword,
  "/accept-invite": AcceptInvite,
  "/api/v1/notifications/unsubscribe": Unsubscribe,
};

/** The portal of partners. */
export function Portal({ session }: { session: BrowserSession }) {
  const [path] = useLocation();
  const mode = /^\/portal\/test(\/|$)/.test(path) ? "test" : "live";
  const Mailed = mailed[path];
  return (
    <Router base={mode === "test" ? "/portal/test" : "/portal"}>
      <AppProvider session={session} mode={mode}>
        <Resumed session={session}>{Mailed ? <Mailed /> : <Pages />}</Resumed>
      </AppProvider>
    </Router>
  );
}

function Pages() {
  const [path] = useLocation();
  const { parser } = useRouter();
  // A merchant cannot have the name of an area, but an address such as /programs/:id looks like
  // that of a programme.
  const isArea = Object.keys(areas).some((address) => matchRoute(parser, address, path)[0]);
  return (
    <Switch>
      {Object.entries(open).map(([address, Page]) => (
        <Route key={address} path={address} component={Page} />
      ))}
      <Route path="/login">{() => <LoggedOut page={Login} />}</Route>
      <Route path="/register">{() => <LoggedOut page={Register} />}</Route>
      {!isArea && <Route path="/:workspace/:program" component={ProgramPage} />}
      <Route>{() => <LoggedIn />}</Route>
    </Switch>
  );
}

/** Shows the pages when they are loaded and it is known whether this browser is logged in. */
function Resumed({ session, children }: { session: BrowserSession; children: ReactNode }) {
  const { t } = useTexts();
  const state = useSession(session);
  const [error, setError] = useState<unknown>(null);
  const resume = useCallback(() => {
    setError(null);
    session.resume().catch(setError);
    if (session.snapshot().status === "unknown") void loadShell();
  }, [session]);
  useEffect(resume, [resume]);
  const waiting = <Frame title={t.product}>{error === null ? <Skeleton /> : <Failure error={error} retry={resume} />}</Frame>;
  return state.status === "unknown" ? waiting : <Suspense fallback={waiting}>{children}</Suspense>;
}

/** A page for people who are not logged in. After the login, the page opens that they wanted. */
function LoggedOut({ page: Page }: { page: ComponentType }) {
  const { session } = useApp();
  const next = new URLSearchParams(location.search).get("next");
  useEffect(() => void loadShell(), []);
  // Only addresses of this portal are followed.
  if (useSession(session).status === "in") return <Redirect to={next && /^\/(?![/\\])/.test(next) ? next : "/"} />;
  return <Page />;
}

function LoggedIn() {
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
    <Suspense fallback={<Skeleton lines={6} />}>
      <Shell name={state.user.name}>
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
