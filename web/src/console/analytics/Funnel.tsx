import type { CSSProperties } from "react";

import { unwrap, useApp } from "../../app/app";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Table } from "../../kit/page";
import { PeriodFilters, usePeriod } from "../PeriodFilters";
import { useTexts } from "../texts";
import { useAnalytics } from "./data";

type Step = "clicks" | "signups" | "conversions" | "approved" | "paid";

/** The steps from clicks to paid commissions. */
export function Funnel() {
  const { api } = useApp();
  const { t, f } = useTexts();
  const period = usePeriod();
  const query = useAnalytics(["funnel", period], async () => unwrap(await api.GET("/api/v1/analytics/funnel", { params: { query: period } })));
  return (
    <>
      <PeriodFilters />
      <p className={kit.muted}>{t.analytics.funnel}</p>
      <Loaded query={query}>
        {({ steps }) => {
          const most = Math.max(1, ...steps.map(({ count }) => count));
          return (
            <Table
              caption={t.analytics.tabs.funnel}
              stale={query.isPlaceholderData}
              rows={steps.map((step) => ({ ...step, id: step.name }))}
              columns={[
                {
                  name: t.analytics.step,
                  cell: ({ name, count }) => (
                    <div>
                      {t.analytics.steps[name as Step].name}
                      <p className={kit.hint}>{t.analytics.steps[name as Step].about}</p>
                      <span className={kit.bar} style={{ "--share": count / most } as CSSProperties} />
                    </div>
                  ),
                  lead: true,
                },
                { name: t.analytics.count, cell: ({ count }) => f.number(count), number: true },
                { name: t.analytics.ofBefore, cell: ({ rate }) => (rate === null ? "–" : f.percent(rate * 10_000)), number: true },
              ]}
            />
          );
        }}
      </Loaded>
    </>
  );
}
