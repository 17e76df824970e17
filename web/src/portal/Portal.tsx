import { type ComponentType, lazy } from "react";

import { Login, Register } from "../app/account/Login";
import type { Pages } from "../app/Application";
import { ProgramPage } from "./join/ProgramPage";

// Only the login, the registration and the page of a programme are loaded at once.
const account = (page: "ForgotPassword" | "ResetPassword" | "Unsubscribe" | "VerifyEmail") =>
  lazy(async () => ({ default: (await import("../app/account/mailed"))[page] }));
const ForgotPassword = account("ForgotPassword");
const ResetPassword = account("ResetPassword");
const Unsubscribe = account("Unsubscribe");
const VerifyEmail = account("VerifyEmail");
const AcceptInvite = lazy(() => import("./join/AcceptInvite"));

const loadShell = () => import("./PortalShell");

const open: Record<string, ComponentType> = {
  "/forgot-password": ForgotPassword,
  "/reset-password": ResetPassword,
  "/verify-email": VerifyEmail,
  "/accept-invite": AcceptInvite,
  "/unsubscribe": Unsubscribe,
  "/:workspace/:program": ProgramPage,
};

const loggedOut: Record<string, ComponentType> = {
  "/login": Login,
  "/register": Register,
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
  "/notifications": lazy(() => import("../app/notifications/Notifications")),
  "/settings": lazy(() => import("./settings/Settings")),
};

/** The addresses of the pages in mails, outside of /portal. */
const mailed: Record<string, ComponentType> = {
  "/verify-email": VerifyEmail,
  "/reset-password": ResetPassword,
  "/accept-invite": AcceptInvite,
  "/api/v1/notifications/unsubscribe": Unsubscribe,
};

/** The pages of the portal of partners. */
export const portal: Pages = { base: "/portal", open, loggedOut, areas, mailed, shell: lazy(loadShell), loadShell };
