import type { CSSProperties } from "react";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";
import { useAnalytics } from "./data";
import { OtherCurrencies } from "./MeasureFields";
import { monthsBefore } from "./months";

/** The numbers of a cohort in a month. */
const contents = ["active", "conversions", "revenueCents", "commissionCents"] as const;
type Content = (typeof contents)[number];

const lengths = ["6", "12", "24"] as const;

/** The customers by the month of their first conversion, and what they bought in the months after it. */
export function Cohorts() {
  const { api } = useApp();
  const { t, f } = useTexts();
  const [programId] = useParameter("program");
  const [months, setMonths] = useParameter("months", "12");
  const [chosen, setContent] = useParameter("measure", "active");
  const content = contents.find((content) => content === chosen) ?? "active";
  const length = lengths.find((length) => length === months) ?? "12";
  const today = f.isoDay(new Date());
  const request = { dateFrom: monthsBefore(today, Number(length) - 1), dateTo: today, timezone: f.timeZone, ...(programId && { programId }) };
  const query = useAnalytics(["cohorts", request], async () => unwrap(await api.GET("/api/v1/analytics/cohorts", { params: { query: request } })));
  return (
    <>
      <div className={kit.filters}>
        <Select
          label={t.analytics.firstConversion}
          options={lengths.map((length): [string, string] => [length, t.analytics.months(f.number(Number(length)))])}
          value={length}
          onChange={(key) => setMonths(String(key))}
        />
        <ProgramFilter />
        <Select
          label={t.analytics.measure}
          options={contents.map((content): [string, string] => [content, t.analytics.contents[content].name])}
          value={content}
          onChange={(key) => setContent(String(key))}
        />
      </div>
      <p className={kit.muted}>
        {t.analytics.cohorts} {t.analytics.contents[content].about}
      </p>
      <Loaded query={query}>
        {({ cohorts, currency, others }) =>
          cohorts.every(({ size }) => size === 0) ? (
            <Card>
              <Empty title={t.analytics.noCohorts}>{t.analytics.noCohortsHint}</Empty>
            </Card>
          ) : (
            <>
              {content.endsWith("Cents") && <OtherCurrencies currency={currency} others={others} />}
              <Triangle cohorts={cohorts} content={content} currency={currency} stale={query.isPlaceholderData} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

/** A row for each cohort, with a cell for each month since its first one. The larger a number, the darker its cell. */
function Triangle({ cohorts, content, currency, stale }: { cohorts: Schemas["AnalyticsCohort"][]; content: Content; currency: string; stale: boolean }) {
  const { t, f } = useTexts();
  const shown = cohorts.filter(({ size }) => size > 0);
  const count = Math.max(...shown.map(({ periods }) => periods.length));
  const most = Math.max(1, ...shown.flatMap(({ periods }) => periods.map((period) => period[content])));
  return (
    <div className={kit.tableFrame} tabIndex={0} role="region" aria-label={t.analytics.tabs.cohorts}>
      <table className={`${kit.heat} ${stale ? kit.stale : ""}`} aria-busy={stale}>
        <caption>{t.analytics.tabs.cohorts}</caption>
        <thead>
          <tr>
            <th scope="col">{t.analytics.cohort}</th>
            <th scope="col">{t.analytics.customers}</th>
            {Array.from({ length: count }, (_, month) => (
              <th key={month} scope="col">
                {month === 0 ? t.analytics.sameMonth : t.analytics.monthsLater(f.number(month))}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {shown.map(({ start, size, periods }) => (
            <tr key={start}>
              <th scope="row">{start && f.month(start)}</th>
              <td>{f.number(size)}</td>
              {periods.map((period) => (
                <td key={period.index} style={{ "--share": content === "active" ? period.active / size : period[content] / most } as CSSProperties}>
                  {content === "active" ? f.percent(Math.round((period.active / size) * 100) * 100) : content === "conversions" ? f.number(period.conversions) : f.money(period[content], currency)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
