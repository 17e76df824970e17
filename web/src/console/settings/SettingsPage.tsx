import type { ComponentType, ReactNode } from "react";
import { Link } from "react-aria-components/Link";
import { useLocation } from "wouter";

import { useApp, useSession } from "../../app/app";
import { Empty } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page } from "../../kit/page";
import { type Operation, useCan } from "../can";
import type { Texts } from "../texts";
import { useTexts } from "../texts";

/** The pages of the settings in their order, each with an operation that its readers may call. */
const pages: [address: string, page: keyof Texts["settingsPages"]["pages"], operation: Operation][] = [
  ["/settings/workspace", "workspace", "GetWorkspace"],
  ["/settings/members", "members", "ListMembers"],
  ["/settings/branding", "branding", "GetBranding"],
  ["/settings/tracking", "tracking", "GetProcessorConnection"],
  ["/settings/api-keys", "keys", "GetApiKeys"],
  ["/settings/service-tokens", "tokens", "ListServiceTokens"],
  ["/settings/mail-log", "mailLog", "ListNotificationLog"],
  ["/settings/audit-log", "auditLog", "ListAuditLog"],
  ["/settings/privacy", "privacy", "EraseBuyer"],
  ["/settings/test-data", "testData", "DeleteTestData"],
];

/** A page of the settings of the workspace, with links to the others that the member may see. */
export function SettingsPage({ title, about, actions, children }: { title: string; about?: ReactNode; actions?: ReactNode; children: ReactNode }) {
  const { t } = useTexts();
  const can = useCan();
  const { mode } = useApp();
  const [path] = useLocation();
  return (
    <Page title={title} about={about} actions={actions}>
      <nav className={kit.pills} aria-label={t.areas.settings}>
        {pages
          .filter(([, page, operation]) => can(operation) && (page !== "testData" || mode === "test"))
          .map(([address, page]) => (
            <Link key={address} href={address} className={kit.pill} aria-current={address === path ? "page" : undefined}>
              {t.settingsPages.pages[page]}
            </Link>
          ))}
      </nav>
      {children}
    </Page>
  );
}

/** Returns a page that members see only if they may call an operation. For others it names their role, and sends no request. */
export function restricted(operation: Operation, Content: ComponentType): ComponentType {
  return function Restricted() {
    const { session } = useApp();
    const { t } = useTexts();
    const can = useCan();
    const login = useSession(session);
    if (can(operation)) return <Content />;
    const role = login.status === "in" && login.user.role;
    return (
      <SettingsPage title={t.settingsPages.forbidden}>
        <Card>
          <Empty title={t.settingsPages.role(role ? t.roles[role] : "")}>{t.settingsPages.forbiddenHint}</Empty>
        </Card>
      </SettingsPage>
    );
  };
}
