import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas, toneOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { LinkButton, SearchField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { daysBefore } from "../overview/period";
import { useTexts } from "../texts";
import { type Program, rateOf } from "./data";

const statuses = ["draft", "active", "paused", "archived"] as const;

/** The programmes of the workspace. */
export default function Programs() {
  const { t } = useTexts();
  const can = useCan();
  const [status, setStatus] = useParameter("status");
  const create = can("CreateProgram") && (
    <LinkButton kind="primary" href="/programs/new">
      {t.programs.create}
    </LinkButton>
  );
  return (
    <Page title={t.programs.title} about={t.programs.about} actions={create}>
      <div className={kit.filters}>
        <SearchField label={t.filter.search} maxLength={200} />
        <Select
          label={t.programs.status}
          options={[["", t.filter.all], ...statuses.map((status): [string, string] => [status, t.status.program[status]])]}
          value={status}
          onChange={(key) => setStatus(String(key))}
        />
      </div>
      <List />
    </Page>
  );
}

function List() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const [search] = useParameter("search");
  const [chosen] = useParameter("status");
  const status = statuses.find((status) => status === chosen);
  const filters = { ...(search && { search }), ...(status && { status }) };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "programs", filters, page],
    queryFn: async () => listOf(await api.GET("/api/v1/programs", { params: { query: { ...filters, ...pageOf(page) } } })),
    refetchInterval: liveInterval,
  });
  const numbers = useQuery({
    queryKey: [mode, "programs", "numbers"],
    queryFn: async () => {
      const dateFrom = daysBefore(f.isoDay(new Date()), 29);
      const params = { query: { groupBy: "program" as const, metric: "clicks" as const, dateFrom, timezone: f.timeZone, pageSize: 100 } };
      const { rows } = unwrap(await api.GET("/api/v1/analytics/breakdown", { params })) as Schemas["AnalyticsBreakdown"];
      return new Map(rows.map((row) => [row.value, row]));
    },
  });
  const count = (row: Program, field: "clicks" | "conversions") => (numbers.data ? f.number(numbers.data.get(row.id)?.[field] ?? 0) : "–");
  return (
    <Loaded query={query}>
      {({ data, total, capped }) => {
        if (data.length === 0) {
          const isFiltered = Object.keys(filters).length > 0;
          return (
            <Card>
              {isFiltered ? (
                <Empty title={t.programs.noneFiltered} action={<LinkButton href="/programs">{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty
                  title={t.programs.none}
                  action={
                    can("CreateProgram") && (
                      <LinkButton kind="primary" href="/programs/new">
                        {t.programs.create}
                      </LinkButton>
                    )
                  }
                >
                  {t.programs.noneHint}
                </Empty>
              )}
            </Card>
          );
        }
        return (
          <>
            <Table
              caption={t.programs.title}
              stale={query.isPlaceholderData}
              rows={data}
              columns={[
                { name: t.programs.name, cell: (row) => <Link href={`/programs/${row.id}`}>{row.name}</Link>, lead: true },
                { name: t.programs.status, cell: (row) => <ProgramBadge program={row} /> },
                { name: t.programs.rateName, cell: (row) => rateOf(row, t, f) },
                { name: t.programs.clicks, cell: (row) => count(row, "clicks"), number: true },
                { name: t.programs.conversions, cell: (row) => count(row, "conversions"), number: true },
                { name: t.programs.created, cell: (row) => row.createdAt && f.date(row.createdAt), sorted: true },
              ]}
            />
            <p className={kit.muted}>{t.programs.numbersHint}</p>
            <Pages total={total} capped={capped} />
          </>
        );
      }}
    </Loaded>
  );
}

export function ProgramBadge({ program: { status } }: { program: Program }) {
  const { t } = useTexts();
  return status && <Badge tone={toneOf(status)}>{t.status.program[status]}</Badge>;
}
