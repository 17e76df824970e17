import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import { Link } from "react-aria-components/Link";
import { Menu, MenuItem, MenuTrigger } from "react-aria-components/Menu";
import { Popover } from "react-aria-components/Popover";
import { useLocation, useRouter } from "wouter";

import { Icon, type IconName } from "../kit/icons";
import kit from "../kit/kit.module.css";
import { unwrap, useApp, useSession } from "./app";
import { feedOf, useLiveNotifications } from "./live";
import css from "./shell.module.css";
import { useTexts } from "./texts";

/** An area of the main menu. */
export interface Area {
  address: string;
  text: string;
  icon: IconName;
  /** The beginning of the addresses of the area's pages, if it is not the address. */
  within?: string;
  /** On a narrow screen, the area is in a menu of its own, because the main menu is small there. */
  isRare?: boolean;
}

/** The frame of the pages of a user who is logged in: the menus, and the page. */
export function Shell({
  areas,
  settings,
  notice,
  tools,
  children,
}: {
  areas: Area[];
  /** The address of the settings. */
  settings: string;
  /** What is above each page. */
  notice?: ReactNode;
  /** What is beside the notifications. */
  tools?: ReactNode;
  children: ReactNode;
}) {
  const { mode } = useApp();
  const { t } = useTexts();
  const [path] = useLocation();
  useLiveNotifications();
  const isCurrent = ({ address, within = address }: Area) => (address === "/" ? path === "/" : path === within || path.startsWith(`${within}/`));
  const rare = areas.filter(({ isRare }) => isRare);
  return (
    <div className={css.shell}>
      <a className={css.skip} href="#content">
        {t.skip}
      </a>
      <header className={css.header}>
        <Link href="/" className={css.brand}>
          {t.app.name}
        </Link>
        <span className={css.tools}>
          {tools}
          <Bell />
          <AccountMenu settings={settings} />
        </span>
      </header>
      {mode === "test" && <aside className={css.test}>{t.nav.test}</aside>}
      <nav className={css.nav} aria-label={t.nav.label}>
        {areas.map((area) => (
          <Link
            key={area.address}
            href={area.address}
            className={`${css.area} ${area.isRare ? css.rare : ""}`}
            aria-current={isCurrent(area) ? "page" : undefined}
          >
            <Icon name={area.icon} />
            {area.text}
          </Link>
        ))}
        {rare.length > 0 && <More areas={rare} isCurrent={rare.some(isCurrent)} />}
      </nav>
      <main id="content" className={css.content}>
        {notice}
        {children}
      </main>
    </div>
  );
}

/** The menu of the areas that are not in the main menu of a narrow screen. */
function More({ areas, isCurrent }: { areas: Area[]; isCurrent: boolean }) {
  const { t } = useTexts();
  const [, navigate] = useLocation();
  return (
    <MenuTrigger>
      <Button className={`${css.area} ${css.more}`} data-current={isCurrent || undefined}>
        <Icon name="grid" />
        {t.nav.more}
      </Button>
      <Popover className={kit.popover}>
        <Menu className={kit.options} aria-label={t.nav.more}>
          {areas.map(({ address, text }) => (
            <MenuItem key={address} className={kit.option} onAction={() => navigate(address)}>
              {text}
            </MenuItem>
          ))}
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

function AccountMenu({ settings }: { settings: string }) {
  const { mode, session } = useApp();
  const { t } = useTexts();
  const [, navigate] = useLocation();
  const { base } = useRouter();
  const login = useSession(session);
  return (
    <MenuTrigger>
      <Button className={css.tool} aria-label={t.nav.account}>
        <Icon name="person" />
      </Button>
      <Popover className={kit.popover}>
        <Menu className={kit.options} aria-label={t.nav.account} disabledKeys={["name"]}>
          <MenuItem id="name" className={`${kit.option} ${kit.muted}`}>
            {login.status === "in" && login.user.name}
          </MenuItem>
          <MenuItem className={kit.option} onAction={() => navigate(settings)}>
            {t.nav.settings}
          </MenuItem>
          <MenuItem className={kit.option} onAction={() => location.assign(mode === "test" ? base.replace(/\/test$/, "") : `${base}/test`)}>
            {mode === "test" ? t.nav.toLive : t.nav.toTest}
          </MenuItem>
          <MenuItem className={kit.option} onAction={() => void session.logout()}>
            {t.account.logout}
          </MenuItem>
        </Menu>
      </Popover>
    </MenuTrigger>
  );
}

function Bell() {
  const { api, mode, session } = useApp();
  const { t } = useTexts();
  const { data } = useQuery({
    queryKey: [mode, "unread"],
    queryFn: async () => unwrap(await api.GET(`${feedOf(session)}/unread-count`)).count,
    refetchInterval: 60_000,
  });
  const count = data ? (data > 99 ? "99+" : String(data)) : "";
  return (
    <Link href="/notifications" className={css.tool} aria-label={count ? `${t.nav.notifications}, ${t.nav.unread(count)}` : t.nav.notifications}>
      <Icon name="bell" />
      {count && <span className={css.dot}>{count}</span>}
    </Link>
  );
}
