import { useQuery } from "@tanstack/react-query";

import { Activity } from "../../app/Activity";
import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Stat, Stats, Table } from "../../kit/page";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";
import { changeOf, daysBefore, periods } from "./period";
import { SetUp, useProgress } from "./SetUp";
import { ToDo } from "./ToDo";

/** The numbers of a period, and what waits for the team. A workspace without a conversion sees the steps of the set-up. */
export default function Overview() {
  const { t } = useTexts();
  const progress = useProgress();
  return (
    <Page title={t.overview.title}>
      <Loaded query={progress}>
        {(progress) => (
          <>
            {!progress.done && <SetUp progress={progress} />}
            <ToDo />
            {progress.conversion && <Numbers />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** The filters of the analytics in the address, as the API names them. */
function useFilters() {
  const { f } = useTexts();
  const [days] = useParameter("days", "30");
  const [programId] = useParameter("program");
  const today = f.isoDay(new Date());
  const length = periods.find((period) => period === days) ?? "30";
  return { dateFrom: daysBefore(today, Number(length) - 1), dateTo: today, timezone: f.timeZone, ...(programId && { programId }) };
}

function Numbers() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const [days, setDays] = useParameter("days", "30");
  const filters = useFilters();
  const query = useQuery({
    queryKey: [mode, "activity", filters],
    queryFn: async () => {
      const [summary, series] = await Promise.all([
        api.GET("/api/v1/analytics/summary", { params: { query: { ...filters, compare: "previous" } } }),
        api.GET("/api/v1/analytics/timeseries", { params: { query: filters } }),
      ]);
      return { summary: unwrap(summary), points: (unwrap(series) as Schemas["AnalyticsTimeseries"]).points };
    },
  });
  return (
    <>
      <div className={kit.filters}>
        <Select
          label={t.overview.period}
          options={periods.map((period): [string, string] => [period, t.overview.days(f.number(Number(period)))])}
          value={days}
          onChange={(key) => setDays(String(key))}
        />
        <ProgramFilter />
      </div>
      <Activity title={t.overview.activity} query={query} amount={{ field: "revenueCents", name: t.overview.revenue }}>
        {(summary) => <Totals summary={summary} />}
      </Activity>
      <Top dimension="participant" />
      <Top dimension="link" />
    </>
  );
}

/** The numbers of the period, each with the change to the period before. */
function Totals({ summary }: { summary: Schemas["AnalyticsSummary"] }) {
  const { t, f } = useTexts();
  const { metrics, previous, currency, byCurrency } = summary;
  if (!metrics) return null;
  const change = (field: keyof NonNullable<typeof metrics>) => {
    const bps = changeOf(metrics[field], previous?.[field]);
    return bps === null ? t.overview.noChange : t.overview.change(f.change(bps));
  };
  const others = byCurrency.filter((amounts) => amounts.currency !== currency);
  return (
    <>
      <Stats>
        <Stat name={t.activity.clicks} value={f.number(metrics.clicks)} note={change("clicks")} />
        <Stat name={t.activity.conversions} value={f.number(metrics.conversions)} note={change("conversions")} />
        <Stat name={t.overview.revenue} value={f.money(metrics.revenueCents, currency)} note={change("revenueCents")} />
        <Stat name={t.overview.commissions} value={f.money(metrics.commissionCents, currency)} note={change("commissionCents")} />
        <Stat name={t.overview.rate} value={metrics.conversionRate === null ? "–" : f.percent(metrics.conversionRate * 10_000)} note={change("conversionRate")} />
        <Stat
          name={t.overview.return}
          value={metrics.returnOnCommission === null ? "–" : t.overview.times(f.number(Math.round(metrics.returnOnCommission * 10) / 10))}
          note={change("returnOnCommission")}
        />
      </Stats>
      {others.length > 0 && (
        <p className={kit.muted}>
          {t.overview.otherCurrencies(
            others.map((amounts) => t.overview.inCurrency(f.money(amounts.revenueCents, amounts.currency), f.money(amounts.commissionCents, amounts.currency))).join(" · "),
          )}
        </p>
      )}
    </>
  );
}

/** The partners or links with the largest revenue in the period. */
function Top({ dimension }: { dimension: "participant" | "link" }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const filters = useFilters();
  const query = useQuery({
    queryKey: [mode, "top", dimension, filters],
    queryFn: async () => {
      const params = { query: { ...filters, groupBy: dimension, metric: "revenueCents" as const, pageSize: 5 } };
      const [breakdown, summary] = await Promise.all([
        api.GET("/api/v1/analytics/breakdown", { params }),
        api.GET("/api/v1/analytics/summary", { params: { query: filters } }),
      ]);
      const { rows } = unwrap(breakdown) as Schemas["AnalyticsBreakdown"];
      return { rows: rows.filter(({ value }) => value !== null), currency: unwrap(summary).currency };
    },
  });
  const title = t.overview.top[dimension];
  return (
    <Card title={title}>
      <Loaded query={query}>
        {({ rows, currency }) =>
          rows.length === 0 ? (
            <p className={kit.muted}>{t.overview.nothing}</p>
          ) : (
            <Table
              caption={title}
              rows={rows.map((row) => ({ ...row, id: row.value ?? "" }))}
              columns={[
                { name: t.overview.name[dimension], cell: (row) => row.label, lead: true },
                { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true },
                { name: t.activity.conversions, cell: (row) => f.number(row.conversions), number: true },
                { name: t.overview.revenue, cell: (row) => f.money(row.revenueCents, currency), number: true, sorted: true },
                { name: t.overview.commissions, cell: (row) => f.money(row.commissionCents, currency), number: true },
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  );
}
