import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, pageSize, Pages, Table, usePage } from "../../kit/page";
import { saveFile } from "../../kit/sharing";
import { CsvButton } from "../CsvButton";
import { PeriodFilters, usePeriod } from "../PeriodFilters";
import { useTexts } from "../texts";
import { useAnalytics } from "./data";
import { Meanings, MeasureSelect, OtherCurrencies, useMeasureColumns } from "./MeasureFields";
import { type Measure, measures, needsClicks, type Numbers, withUsual } from "./measures";
import { type Dimension, Value } from "./Value";

/** The dimensions in the order of their menu. */
const dimensions = [
  "participant",
  "program",
  "link",
  "promo_code",
  "country",
  "device",
  "browser",
  "os",
  "referrer",
  "landing_page",
  "utm_source",
  "utm_medium",
  "utm_campaign",
  "sub_id",
  "event_type",
] as const satisfies readonly Dimension[];

/** The numbers of a value, or the sum of all that are not counted separately. */
type Row = Numbers & { id: string } & ({ value: string | null; label: string } | { isRest: true });

/** The numbers of each value of a dimension, the largest first. */
export function Breakdown() {
  const { api } = useApp();
  const { t } = useTexts();
  const page = usePage();
  const period = usePeriod();
  const [chosen, setDimension] = useParameter("by", "participant");
  const dimension = dimensions.find((dimension) => dimension === chosen) ?? "participant";
  const isWithoutClicks = dimension === "promo_code" || dimension === "event_type";
  const possible = measures.filter((measure) => !isWithoutClicks || !needsClicks(measure));
  const first: Measure = isWithoutClicks ? "conversions" : "clicks";
  const [sort, setSort] = useParameter("sort", `-${first}`);
  const metric = possible.find((measure) => `-${measure}` === sort) ?? first;
  const request = { ...period, groupBy: dimension, metric };
  const query = useAnalytics(["breakdown", request, page], async () => {
    const { rows, other, total } = unwrap(await api.GET("/api/v1/analytics/breakdown", { params: { query: { ...request, ...pageOf(page) } } })) as Schemas["AnalyticsBreakdown"];
    const isLast = page * pageSize >= total;
    const isRest = isLast && other !== null && other.clicks + other.conversions > 0;
    const shown = withUsual(metric).filter((measure) => possible.includes(measure));
    return { dimension, shown, first, total, rows: rows.map((row): Row => ({ ...row, id: row.value ?? "" })).concat(isRest ? { ...other, id: "rest", isRest } : []) };
  });
  return (
    <>
      <PeriodFilters>
        <Select
          label={t.analytics.by}
          options={dimensions.map((dimension): [string, string] => [dimension, t.analytics.dimensions[dimension]])}
          value={dimension}
          onChange={(key) => setDimension(String(key))}
        />
        <MeasureSelect label={t.analytics.sortedBy} value={metric} options={possible} onChange={(measure) => setSort(`-${measure}`)} />
      </PeriodFilters>
      <div className={kit.cardHead}>
        <p className={kit.muted}>{t.analytics.properties[isWithoutClicks ? dimension : "others"]}</p>
        <CsvButton
          save={async () => saveFile(unwrap(await api.GET("/api/v1/analytics/breakdown", { params: { query: { ...request, format: "csv" } }, parseAs: "blob" })) as Blob, "analytics.csv")}
        />
      </div>
      <Loaded query={query}>
        {(data) =>
          data.rows.length === 0 ? (
            <Card>
              <Empty title={t.analytics.nothing}>{t.analytics.nothingHint}</Empty>
            </Card>
          ) : (
            <>
              <OtherCurrencies {...data} />
              <Rows {...data} stale={query.isPlaceholderData} />
              <Pages total={data.total} />
              <Meanings shown={data.shown} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Rows({
  dimension,
  shown,
  first,
  rows,
  currency,
  stale,
}: {
  dimension: Dimension;
  shown: readonly Measure[];
  first: Measure;
  rows: Row[];
  currency: string;
  stale: boolean;
}) {
  const { t } = useTexts();
  const columns = useMeasureColumns(shown, currency);
  return (
    <Table
      caption={t.analytics.tabs.breakdown}
      stale={stale}
      largestFirst={first}
      rows={rows}
      columns={[{ name: t.analytics.dimensions[dimension], cell: (row) => ("isRest" in row ? t.analytics.rest : <Value {...row} dimension={dimension} />), lead: true }, ...columns]}
    />
  );
}
