import type { ReactNode } from "react";

import { Shell } from "../app/Shell";
import { useTexts } from "./texts";

/** The menu of the portal around a page. */
export default function PortalShell({ children }: { children: ReactNode }) {
  const { t } = useTexts();
  return (
    <Shell
      areas={[
        { address: "/", text: t.areas.home, icon: "home" },
        { address: "/links", text: t.areas.links, icon: "link" },
        { address: "/commissions", text: t.areas.commissions, icon: "coins" },
        { address: "/payouts", text: t.areas.payouts, icon: "payout" },
        { address: "/programs", text: t.areas.programs, icon: "megaphone", isRare: true },
      ]}
      settings="/settings"
    >
      {children}
    </Shell>
  );
}
