import { useQuery } from "@tanstack/react-query";
import { type ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import { Link } from "react-aria-components/Link";
import { Menu, MenuItem, MenuTrigger } from "react-aria-components/Menu";
import { Popover } from "react-aria-components/Popover";
import { useLocation } from "wouter";

import { unwrap, useApp } from "../app/app";
import { useLiveNotifications } from "../app/live";
import { useTexts } from "../app/texts";
import { Icon, type IconName } from "../kit/icons";
import kit from "../kit/kit.module.css";
import css from "./shell.module.css";

/** The areas of the menu, by their addresses. */
const areas = [
  ["/", "home", "home"],
  ["/links", "links", "link"],
  ["/commissions", "commissions", "coins"],
  ["/payouts", "payouts", "payout"],
  ["/programs", "programs", "grid"],
] as const satisfies readonly (readonly [string, string, IconName])[];

/** The frame of the pages of a partner who is logged in: the menu, and the page. */
export default function Shell({ name, children }: { name: string; children: ReactNode }) {
  const { mode, session } = useApp();
  const { t } = useTexts();
  const [path, navigate] = useLocation();
  useLiveNotifications();
  const isCurrent = (area: string) => (area === "/" ? path === "/" : path === area || path.startsWith(`${area}/`));
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#content">
        {t.skip}
      </a>
      <header className={css.header}>
        <Link href="/" className={css.brand}>
          {t.product}
        </Link>
        <span className={css.tools}>
          <Bell />
          <MenuTrigger>
            <Button className={css.tool} aria-label={t.nav.account}>
              <Icon name="person" />
            </Button>
            <Popover className={kit.popover}>
              <Menu className={kit.options} aria-label={t.nav.account} disabledKeys={["name"]}>
                <MenuItem id="name" className={`${kit.option} ${kit.muted}`}>
                  {name}
                </MenuItem>
                <MenuItem className={kit.option} onAction={() => navigate("/programs")}>
                  {t.nav.programs}
                </MenuItem>
                <MenuItem className={kit.option} onAction={() => navigate("/settings")}>
                  {t.nav.settings}
                </MenuItem>
                <MenuItem className={kit.option} onAction={() => location.assign(mode === "test" ? "/portal" : "/portal/test")}>
                  {mode === "test" ? t.nav.toLive : t.nav.toTest}
                </MenuItem>
                <MenuItem className={kit.option} onAction={() => void session.logout()}>
                  {t.account.logout}
                </MenuItem>
              </Menu>
            </Popover>
          </MenuTrigger>
        </span>
      </header>
      {mode === "test" && <aside className={css.test}>{t.nav.test}</aside>}
      <nav className={css.nav} aria-label={t.nav.label}>
        {areas.map(([address, text, icon]) => (
          <Link key={address} href={address} className={css.area} aria-current={isCurrent(address) ? "page" : undefined}>
            <Icon name={icon} />
            {t.nav[text]}
          </Link>
        ))}
      </nav>
      <main id="content" className={css.content}>
        {children}
      </main>
    </div>
  );
}

function Bell() {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const { data } = useQuery({
    queryKey: [mode, "unread"],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/notifications/unread-count")).count,
    refetchInterval: 60_000,
  });
  return (
    <Link href="/notifications" className={css.tool} aria-label={data ? `${t.nav.notifications}, ${t.nav.unread(data)}` : t.nav.notifications}>
      <Icon name="bell" />
      {!!data && <span className={css.dot}>{data > 99 ? "99+" : data}</span>}
    </Link>
  );
}
