import { lazy, Suspense } from "react";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Loaded, Skeleton } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, pageSize, Pages, Table, usePage } from "../../kit/page";
import { saveFile } from "../../kit/sharing";
import { CsvButton } from "../CsvButton";
import { PeriodFilters, usePeriod } from "../PeriodFilters";
import { useTexts } from "../texts";
import { useAnalytics } from "./data";
import { type Interval, intervals, startText } from "./interval";
import { Meanings, MeasureSelect, OtherCurrencies, useMeasureColumns } from "./MeasureFields";
import { type Measure, measures, withUsual } from "./measures";

const Chart = lazy(() => import("./Chart"));

/** A measure in each interval of the period, as a chart and as a table. */
export function Development() {
  const { api } = useApp();
  const { t } = useTexts();
  const period = usePeriod();
  const [days] = useParameter("days", "30");
  const [chosenMeasure, setMeasure] = useParameter("measure", "clicks");
  const [chosenInterval, setInterval] = useParameter("interval", "day");
  const measure = measures.find((measure) => measure === chosenMeasure) ?? "clicks";
  // The service has the numbers of hours for seven days only.
  const possible = intervals.filter((interval) => interval !== "hour" || days === "7");
  const interval = possible.find((interval) => interval === chosenInterval) ?? "day";
  const request = { ...period, interval };
  const query = useAnalytics(["timeseries", request], async () => {
    const { points } = unwrap(await api.GET("/api/v1/analytics/timeseries", { params: { query: request } })) as Schemas["AnalyticsTimeseries"];
    return { points, interval };
  });
  const { name, about } = t.analytics.measures[measure];
  return (
    <>
      <PeriodFilters>
        <MeasureSelect label={t.analytics.measure} value={measure} onChange={setMeasure} />
        <Select
          label={t.analytics.interval}
          options={possible.map((interval): [string, string] => [interval, t.analytics.intervals[interval]])}
          value={interval}
          onChange={(key) => setInterval(String(key))}
        />
      </PeriodFilters>
      <Loaded query={query}>
        {(data) => (
          <>
            <OtherCurrencies {...data} />
            <Card
              title={name}
              action={
                <CsvButton
                  save={async () => saveFile(unwrap(await api.GET("/api/v1/analytics/timeseries", { params: { query: { ...request, format: "csv" } }, parseAs: "blob" })) as Blob, "analytics.csv")}
                />
              }
            >
              <p className={kit.muted}>{about}</p>
              <Suspense fallback={<Skeleton />}>
                <Chart {...data} measure={measure} />
              </Suspense>
            </Card>
            <Rows {...data} measure={measure} stale={query.isPlaceholderData} />
          </>
        )}
      </Loaded>
    </>
  );
}

/** The numbers of the intervals, the latest first. */
function Rows({ points, interval, measure, currency, stale }: { points: Schemas["AnalyticsPoint"][]; interval: Interval; measure: Measure; currency: string; stale: boolean }) {
  const { t, f } = useTexts();
  const page = usePage();
  const shown = withUsual(measure);
  const columns = useMeasureColumns(shown, currency).map(({ sortBy: _, ...column }) => column);
  const rows = points.map((point) => ({ ...point, id: point.start ?? "" })).reverse();
  return (
    <>
      <Table
        caption={t.analytics.tabs.development}
        stale={stale}
        rows={rows.slice((page - 1) * pageSize, page * pageSize)}
        columns={[{ name: t.analytics.starts[interval], cell: (row) => startText(row.id, interval, f), lead: true, sorted: true }, ...columns]}
      />
      <Pages total={rows.length} />
      <Meanings shown={shown} />
    </>
  );
}
