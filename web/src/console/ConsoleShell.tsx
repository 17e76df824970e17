import type { ReactNode } from "react";

import { useApp, useSession } from "../app/app";
import { Shell } from "../app/Shell";
import { LinkButton } from "../kit/controls";
import { Notice } from "../kit/feedback";
import { Search } from "./search/Search";
import { useTexts } from "./texts";

/** The menu of the console around a page. */
export default function ConsoleShell({ children }: { children: ReactNode }) {
  const { t } = useTexts();
  return (
    <Shell
      areas={[
        { address: "/", text: t.areas.overview, icon: "home" },
        { address: "/analytics", text: t.areas.analytics, icon: "chart", isRare: true },
        { address: "/commissions", text: t.areas.commissions, icon: "coins" },
        { address: "/partners", text: t.areas.partners, icon: "people" },
        { address: "/payouts", text: t.areas.payouts, icon: "payout" },
        { address: "/programs", text: t.areas.programs, icon: "megaphone", isRare: true },
        { address: "/conversions", text: t.areas.conversions, icon: "cart", isRare: true },
        { address: "/fraud", text: t.areas.fraud, icon: "shield", isRare: true },
        { address: "/webhooks", text: t.areas.webhooks, icon: "plug", isRare: true },
        { address: "/settings/workspace", text: t.areas.settings, icon: "cog", within: "/settings", isRare: true },
      ]}
      settings="/settings/account"
      tools={<Search />}
      notice={<SecondFactorNotice />}
    >
      {children}
    </Shell>
  );
}

/** Tells a member without the second factor that the workspace requires one. */
function SecondFactorNotice() {
  const { session } = useApp();
  const { t } = useTexts();
  const state = useSession(session);
  if (state.status !== "in" || !state.workspace?.requireSecondFactor || state.user.secondFactor) return null;
  return (
    <Notice
      tone="warn"
      action={
        <LinkButton small href="/settings/account?show=security">
          {t.settings.factorEnable}
        </LinkButton>
      }
    >
      {t.needsSecondFactor}
    </Notice>
  );
}
