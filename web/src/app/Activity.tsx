import type { UseQueryResult } from "@tanstack/react-query";
import { lazy, type ReactNode, Suspense, useState } from "react";

import { Button } from "../kit/controls";
import { Loaded, Skeleton } from "../kit/feedback";
import { Card, Table } from "../kit/page";
import type { Schemas } from "./data";
import { useTexts } from "./texts";

const Chart = lazy(() => import("./Chart"));

/** The numbers of a period, and those of each day in it. */
export interface Period {
  summary: Schemas["AnalyticsSummary"];
  points: Schemas["AnalyticsPoint"][];
}

/** The amount of a day that a chart shows, and its name. */
export interface Amount {
  field: "commissionCents" | "revenueCents";
  name: string;
}

/** The numbers of a period and their course, as a chart or as a table. */
export function Activity({
  title,
  query,
  amount,
  children,
}: {
  title: string;
  query: UseQueryResult<Period>;
  amount: Amount;
  /** Shows the numbers of the whole period. */
  children: (summary: Period["summary"]) => ReactNode;
}) {
  const { t, f } = useTexts();
  const [asTable, setAsTable] = useState(false);
  return (
    <Card
      title={title}
      action={
        <Button kind="plain" small onPress={() => setAsTable(!asTable)}>
          {asTable ? t.activity.asChart : t.activity.asTable}
        </Button>
      }
    >
      <Loaded query={query}>
        {({ summary, points }) => (
          <>
            {children(summary)}
            {asTable ? (
              <Table
                caption={title}
                rows={points.map((point) => ({ ...point, id: point.start ?? "" })).reverse()}
                columns={[
                  { name: t.activity.day, cell: (row) => f.date(row.id), lead: true },
                  { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true },
                  { name: t.activity.conversions, cell: (row) => f.number(row.conversions), number: true },
                  { name: amount.name, cell: (row) => f.money(row[amount.field], summary.currency), number: true },
                ]}
              />
            ) : (
              <Suspense fallback={<Skeleton />}>
                <Chart title={title} points={points} currency={summary.currency} amount={amount} />
              </Suspense>
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}
