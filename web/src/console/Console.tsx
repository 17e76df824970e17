import { type ComponentType, lazy } from "react";

import { Login, Register } from "../app/account/Login";
import type { Pages } from "../app/Application";

// Only the login is loaded at once.
const account = (page: "ForgotPassword" | "ResetPassword" | "Unsubscribe" | "VerifyEmail") =>
  lazy(async () => ({ default: (await import("../app/account/mailed"))[page] }));

/** An invitation is accepted on a page outside of the console, because it can be one to a programme. */
function AcceptInvite() {
  location.replace(`/accept-invite${location.hash}`);
  return null;
}

const loadShell = () => import("./ConsoleShell");

const open: Record<string, ComponentType> = {
  "/forgot-password": account("ForgotPassword"),
  "/reset-password": account("ResetPassword"),
  "/verify-email": account("VerifyEmail"),
  "/accept-invite": AcceptInvite,
  "/unsubscribe": account("Unsubscribe"),
};

const loggedOut: Record<string, ComponentType> = {
  "/login": Login,
  "/register": Register,
  "/setup": lazy(() => import("./SetUpInstallation")),
};

/** The pages of a member who is logged in. Each area is loaded when it is opened. */
const areas: Record<string, ComponentType> = {
  "/": lazy(() => import("./overview/Overview")),
  "/analytics": lazy(() => import("./analytics/Analytics")),
  "/commissions": lazy(() => import("./commissions/Commissions")),
  "/commissions/:id": lazy(() => import("./commissions/CommissionDetail")),
  "/conversions": lazy(() => import("./conversions/Conversions")),
  "/conversions/:id": lazy(() => import("./conversions/ConversionDetail")),
  "/fraud": lazy(() => import("./fraud/Fraud")),
  "/partners": lazy(() => import("./partners/Partners")),
  "/partners/:id": lazy(() => import("./partners/FindPartner")),
  "/programs": lazy(() => import("./programs/Programs")),
  "/programs/new": lazy(() => import("./programs/NewProgram")),
  "/programs/:id": lazy(() => import("./programs/ProgramDetail")),
  "/programs/:program/partners/:id": lazy(() => import("./partners/PartnerDetail")),
  "/payouts": lazy(() => import("./payouts/Payouts")),
  "/payouts/new": lazy(() => import("./payouts/NewBatch")),
  "/payouts/batches/:id": lazy(() => import("./payouts/BatchDetail")),
  "/payouts/:id": lazy(() => import("./payouts/PayoutDetail")),
  "/webhooks": lazy(() => import("./webhooks/Webhooks")),
  "/webhooks/:id": lazy(() => import("./webhooks/WebhookDetail")),
  "/notifications": lazy(() => import("../app/notifications/Notifications")),
  "/settings/workspace": lazy(() => import("./settings/Workspace")),
  "/settings/members": lazy(() => import("./team/Members")),
  "/settings/branding": lazy(() => import("./branding/Branding")),
  "/settings/tracking": lazy(() => import("./tracking/Tracking")),
  "/settings/api-keys": lazy(() => import("./keys/ApiKeys")),
  "/settings/service-tokens": lazy(() => import("./keys/ServiceTokens")),
  "/settings/mail-log": lazy(() => import("./logs/MailLog")),
  "/settings/audit-log": lazy(() => import("./logs/AuditLog")),
  "/settings/privacy": lazy(() => import("./settings/Privacy")),
  "/settings/test-data": lazy(() => import("./settings/TestData")),
  "/settings/account": lazy(() => import("./settings/Account")),
};

/** The pages of the console for merchants' teams. */
export const console: Pages = { base: "/console", open, loggedOut, areas, shell: lazy(loadShell), loadShell };
