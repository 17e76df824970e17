import type { ReactNode } from "react";

/** The icons of the menus. They have no meaning of their own: a text is always next to them. */
const paths = {
  home: "M3 11.5 12 4l9 7.5M5.5 9.5V20h13V9.5",
  link: "M10 14a4.5 4.5 0 0 0 6.4 0l3-3A4.5 4.5 0 1 0 13 4.6l-1 1M14 10a4.5 4.5 0 0 0-6.4 0l-3 3A4.5 4.5 0 1 0 11 19.4l1-1",
  coins: "M12 3v18M16.5 7.2C15.8 6 14.2 5.5 12 5.5c-2.6 0-4.5 1-4.5 3s1.9 2.7 4.5 3.2 4.5 1.3 4.5 3.4-1.9 3.4-4.5 3.4c-2.4 0-4-.6-4.7-1.9",
  payout: "M3 7h18v11H3zM3 11h18M7 15h4",
  grid: "M4 4h6.5v6.5H4zM13.5 4H20v6.5h-6.5zM4 13.5h6.5V20H4zM13.5 13.5H20V20h-6.5z",
  people: "M9 11.5a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7zM2.5 19.5c.6-3.3 3-5 6.5-5s5.9 1.7 6.5 5M16 4.8a3.3 3.3 0 0 1 0 6.4M18 14.9c2 .7 3.1 2.2 3.5 4.6",
  cart: "M3 4.5h2.5l2.4 11h9.6l2-8H6.4M9.5 20.5h.01M16.5 20.5h.01",
  megaphone: "M4 10v4l11 4.5v-13zM15 9.5c2 0 3 1 3 2.5s-1 2.5-3 2.5M7 15.5l1 4h2.5",
  search: "M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13zM15.5 15.5 21 21",
  chart: "M4 20V4M4 20h16M8 16v-4M12.5 16V8M17 16v-6",
  shield: "M12 3l7.5 3v5.5c0 4.6-3.1 7.8-7.5 9.5-4.4-1.7-7.5-4.9-7.5-9.5V6z",
  plug: "M9 3v5M15 3v5M6.5 8h11v3.5a5.5 5.5 0 0 1-11 0zM12 17v4",
  cog: "M12 15.2a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4zM12 3v2.5M12 18.5V21M3 12h2.5M18.5 12H21M5.6 5.6l1.8 1.8M16.6 16.6l1.8 1.8M18.4 5.6l-1.8 1.8M7.4 16.6l-1.8 1.8",
  bell: "M6 16.5V11a6 6 0 1 1 12 0v5.5l1.5 2h-15zM10 20.5h4",
  person: "M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8zM4.5 20.5c.8-3.8 3.6-5.5 7.5-5.5s6.7 1.7 7.5 5.5",
};

export type IconName = keyof typeof paths;

export function Icon({ name, size = 22 }: { name: IconName; size?: number }): ReactNode {
  return (
    <svg width={size} height={size} viewBox="0 0 24 24" fill="none" stroke="currentColor" strokeWidth="1.7" strokeLinecap="round" strokeLinejoin="round" aria-hidden>
      <path d={paths[name]} />
    </svg>
  );
}
