import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import { Activity, type Period } from "../../app/Activity";
import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Stat, Stats, Table } from "../../kit/page";
import { measureText } from "../analytics/measures";
import { Value } from "../analytics/Value";
import { PeriodFilters, usePeriod } from "../PeriodFilters";
import { useTexts } from "../texts";
import { changeOf } from "./period";
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

function Numbers() {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const filters = usePeriod();
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
      <PeriodFilters />
      <Activity title={t.overview.activity} query={query} amount={{ field: "revenueCents", name: t.overview.revenue }}>
        {(summary) => <Totals summary={summary} />}
      </Activity>
      <Top dimension="participant" activity={query} />
      <Top dimension="link" activity={query} />
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
        {(["clicks", "conversions", "revenueCents", "commissionCents", "conversionRate", "returnOnCommission"] as const).map((measure) => (
          <Stat key={measure} name={t.analytics.measures[measure].name} value={measureText(measure, metrics[measure], currency, t, f)} note={change(measure)} />
        ))}
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

/** The partners or links with the largest revenue in the period. The totals of the activity say what the currency is. */
function Top({ dimension, activity }: { dimension: "participant" | "link"; activity: UseQueryResult<Period> }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const filters = usePeriod();
  const query = useQuery({
    queryKey: [mode, "top", dimension, filters],
    queryFn: async () => {
      const params = { query: { ...filters, groupBy: dimension, metric: "revenueCents" as const, pageSize: 5 } };
      const { rows } = unwrap(await api.GET("/api/v1/analytics/breakdown", { params })) as Schemas["AnalyticsBreakdown"];
      return rows.filter(({ value }) => value !== null);
    },
  });
  const title = t.overview.top[dimension];
  return (
    <Card title={title}>
      <Loaded query={activity}>
        {({ summary: { currency } }) => (
          <Loaded query={query}>
            {(rows) =>
              rows.length === 0 ? (
                <p className={kit.muted}>{t.overview.nothing}</p>
              ) : (
                <Table
                  caption={title}
                  rows={rows.map((row) => ({ ...row, id: row.value ?? "" }))}
                  columns={[
                    { name: t.overview.name[dimension], cell: (row) => <Value {...row} dimension={dimension} />, lead: true },
                    { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true },
                    { name: t.activity.conversions, cell: (row) => f.number(row.conversions), number: true },
                    { name: t.overview.revenue, cell: (row) => f.money(row.revenueCents, currency), number: true, sorted: true },
                    { name: t.overview.commissions, cell: (row) => f.money(row.commissionCents, currency), number: true },
                  ]}
                />
              )
            }
          </Loaded>
        )}
      </Loaded>
    </Card>
  );
}
