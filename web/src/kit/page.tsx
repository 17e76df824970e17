import { type ReactNode, useEffect, useRef } from "react";
import { Link } from "react-aria-components/Link";
import { useLocation, useSearch } from "wouter";

import { useParameter } from "../app/address";
import { useTexts } from "../app/texts";
import { Button, Checkbox } from "./controls";
import css from "./kit.module.css";

/** A page with its heading, which gets the focus when the page is opened. */
export function Page({
  title,
  site,
  about,
  actions,
  children,
}: {
  title: string;
  /** The name after the title in the tab of the browser. Default: that of the application. */
  site?: string;
  about?: ReactNode;
  actions?: ReactNode;
  children?: ReactNode;
}) {
  const { t } = useTexts();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} · ${site ?? t.app.name}`;
  }, [title, site, t]);
  useEffect(() => {
    heading.current?.focus({ preventScroll: true });
    scrollTo(0, 0);
  }, []);
  return (
    <div className={css.page}>
      <div className={css.pageHead}>
        <div>
          <h1 ref={heading} tabIndex={-1}>
            {title}
          </h1>
          {about && <p>{about}</p>}
        </div>
        {actions && <div className={css.actions}>{actions}</div>}
      </div>
      {children}
    </div>
  );
}

/**
 * Links to the parts of a page. The parameter show of the address names the open one, and the
 * first is open if there is none. The links keep the parameters in keep.
 */
export function Tabs({ label, tabs, keep = [] }: { label: string; tabs: [show: string, text: string][]; keep?: string[] }) {
  const [path] = useLocation();
  const parameters = new URLSearchParams(useSearch());
  const first = tabs[0]?.[0] ?? "";
  const [open] = useParameter("show", first);
  const addressOf = (show: string) => {
    const kept = [...parameters].filter(([name]) => keep.includes(name));
    const query = new URLSearchParams(show === first ? kept : [["show", show], ...kept]).toString();
    return query ? `${path}?${query}` : path;
  };
  return (
    <nav className={css.tabs} aria-label={label}>
      {tabs.map(([show, text]) => (
        <Link key={show} href={addressOf(show)} className={css.tab} aria-current={show === open ? "page" : undefined}>
          {text}
        </Link>
      ))}
    </nav>
  );
}

export function Card({ title, action, children }: { title?: ReactNode; action?: ReactNode; children: ReactNode }) {
  return (
    <section className={css.card}>
      {(title || action) && (
        <div className={css.cardHead}>
          {title && <h2>{title}</h2>}
          {action}
        </div>
      )}
      {children}
    </section>
  );
}

/** A number with its name. */
export function Stat({ name, value, note }: { name: string; value: ReactNode; note?: ReactNode }) {
  return (
    <div className={css.stat}>
      <dt>{name}</dt>
      <dd>{value}</dd>
      {note && <dd>{note}</dd>}
    </div>
  );
}

export function Stats({ children }: { children: ReactNode }) {
  return <dl className={css.stats}>{children}</dl>;
}

/** Names and values of a record. Values that are null, false or empty are left out. Amounts are aligned at the right. */
export function Facts({ rows, amounts = false }: { rows: [name: string, value: ReactNode][]; amounts?: boolean }) {
  return (
    <dl className={`${css.facts} ${amounts ? css.amounts : ""}`}>
      {rows
        .filter(([, value]) => value !== null && value !== undefined && value !== false && value !== "")
        .map(([name, value]) => [<dt key={`${name}-name`}>{name}</dt>, <dd key={name}>{value}</dd>])}
    </dl>
  );
}

export interface Column<T> {
  name: string;
  cell: (row: T) => ReactNode;
  /** Whether the column contains amounts or numbers, which are aligned at the right. */
  number?: boolean;
  /** Whether the rows are in the order of this column, the newest or largest first. */
  sorted?: boolean;
  /** The name of the field by which the service sorts if the user chooses this column. */
  sortBy?: string;
  /** Whether the column names the row. On a narrow screen, it is the title of the row's card. */
  lead?: boolean;
}

/** The selected rows of a table. */
export interface Selection<T> {
  ids: ReadonlySet<string>;
  onChange: (ids: ReadonlySet<string>) => void;
  /** The name of a row for its checkbox. */
  name: (row: T) => string;
  /** Whether a row can be selected. Default: all rows. */
  isSelectable?: (row: T) => boolean;
}

/** The order of a table that is in the address, as the service names it. Default: the newest first. */
export function useSort<F extends string>(fields: readonly F[]): { sortBy: F | "createdAt"; sortOrder: "asc" | "desc" } {
  const [sort] = useParameter("sort");
  const field = fields.find((field) => field === sort.replace(/^-/, ""));
  return { sortBy: field ?? "createdAt", sortOrder: field && !sort.startsWith("-") ? "asc" : "desc" };
}

/** A table. On a narrow screen, each row is a card. */
export function Table<T extends { id: string }>({
  caption,
  columns,
  rows,
  selection,
  largestFirst,
  stale = false,
}: {
  caption: string;
  columns: Column<T>[];
  rows: T[];
  selection?: Selection<T>;
  /** The field by which the rows are sorted if the user chooses none, for a list that the service sorts only with the largest first. */
  largestFirst?: string;
  /** Whether the rows are those of the page before, while the next page is being loaded. */
  stale?: boolean;
}) {
  const { t } = useTexts();
  return (
    <div className={css.tableFrame}>
      <table className={`${css.table} ${stale ? css.stale : ""}`} aria-busy={stale}>
        <caption>{caption}</caption>
        <thead>
          <tr>
            {selection && <td />}
            {columns.map((column) =>
              column.sortBy ? (
                <SortHeader key={column.name} name={column.name} sortBy={column.sortBy} number={column.number} largestFirst={largestFirst} />
              ) : (
                <th key={column.name} scope="col" aria-sort={column.sorted ? "descending" : undefined} className={column.number ? css.number : undefined}>
                  {column.name}
                </th>
              ),
            )}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id} data-selected={selection?.ids.has(row.id) || undefined}>
              {selection && (
                <td className={css.select}>
                  {(selection.isSelectable?.(row) ?? true) && (
                    <Checkbox
                      aria-label={t.table.select(selection.name(row))}
                      isSelected={selection.ids.has(row.id)}
                      onChange={(on) => selection.onChange(changed(selection.ids, row.id, on))}
                    />
                  )}
                </td>
              )}
              {columns.map(({ name, cell, number, lead }) => (
                <td key={name} data-label={name} className={[number && css.number, lead && css.lead].filter(Boolean).join(" ")}>
                  {cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** What can be done with the selected rows of a table, and the choice of all rows. It stays visible while the table scrolls. */
export function BulkBar({
  ids,
  selected,
  onSelect,
  label,
  fields,
  children,
}: {
  /** The rows that can be selected. */
  ids: string[];
  selected: ReadonlySet<string>;
  onSelect: (ids: ReadonlySet<string>) => void;
  /** How many rows are selected, or that all can be. */
  label: string;
  fields?: ReactNode;
  /** The buttons. */
  children: ReactNode;
}) {
  return (
    <div className={css.bulk}>
      <Checkbox isSelected={ids.length > 0 && ids.every((id) => selected.has(id))} onChange={(all) => onSelect(new Set(all ? ids : []))}>
        {label}
      </Checkbox>
      {fields}
      <span className={css.actions}>{children}</span>
    </div>
  );
}

/** A column by which the user can sort: first the largest or newest, then the smallest or oldest. */
function SortHeader({ name, sortBy, number, largestFirst }: { name: string; sortBy: string; number: boolean | undefined; largestFirst: string | undefined }) {
  const [current, setSort] = useParameter("sort", `-${largestFirst ?? "createdAt"}`);
  const order = current === `-${sortBy}` ? "descending" : current === sortBy ? "ascending" : undefined;
  return (
    <th scope="col" aria-sort={order} className={number ? css.number : undefined}>
      <button type="button" onClick={() => setSort(order === "descending" && !largestFirst ? sortBy : `-${sortBy}`)}>
        {name}
        <span aria-hidden>{order === "descending" ? " ↓" : order === "ascending" ? " ↑" : " ↕"}</span>
      </button>
    </th>
  );
}

/** Returns a set of ids with or without an id. */
function changed(ids: ReadonlySet<string>, id: string, on: boolean): ReadonlySet<string> {
  const next = new Set(ids);
  if (on) next.add(id);
  else next.delete(id);
  return next;
}

/** The number of rows on a page of a table. */
export const pageSize = 50;

/** The page of a table that is in the address, and the buttons to the next ones. */
export function usePage(): number {
  const [page] = useParameter("page", "1");
  return Math.max(1, Number.parseInt(page, 10) || 1);
}

export function Pages({ total, capped = false }: { total: number; capped?: boolean }) {
  const { t, f } = useTexts();
  const page = usePage();
  const [, setPage] = useParameter("page", "1");
  const last = Math.max(1, Math.ceil(total / pageSize));
  if (total <= pageSize && page === 1) return null;
  return (
    <nav className={css.pages} aria-label={t.table.pages}>
      <span>{t.table.range(f.number((page - 1) * pageSize + 1), f.number(Math.min(page * pageSize, total)), f.number(total) + (capped ? "+" : ""))}</span>
      <span className={css.actions}>
        <Button small isDisabled={page <= 1} onPress={() => setPage(String(page - 1))}>
          {t.table.previous}
        </Button>
        <Button small isDisabled={page >= last} onPress={() => setPage(String(page + 1))}>
          {t.table.next}
        </Button>
      </span>
    </nav>
  );
}
