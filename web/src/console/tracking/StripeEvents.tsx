import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Badge, Empty, Loaded, type Tone } from "../../kit/feedback";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { liveInterval } from "../data";
import { useTexts } from "../texts";

const tones: Record<NonNullable<Schemas["ProcessorEvent"]["status"]>, Tone> = { received: "info", applied: "good", ignored: "info", parked: "warn", failed: "bad" };

/** The events of Stripe, with what the service did. */
export function StripeEvents() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const query = useQuery({
    ...paged,
    queryKey: [mode, "stripe", "events", page],
    queryFn: async () => listOf(await api.GET("/api/v1/integrations/{processor}/events", { params: { path: { processor: "stripe" }, query: pageOf(page) } })),
    refetchInterval: liveInterval,
  });
  const reasons: Record<string, string> = t.stripe.reasons;
  return (
    <Card title={t.stripe.events}>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Empty title={t.stripe.noEvents}>{t.stripe.noEventsHint}</Empty>
          ) : (
            <>
              <Table
                caption={t.stripe.events}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  { name: t.stripe.event, cell: (row) => row.type, lead: true },
                  { name: t.stripe.received, cell: (row) => row.receivedAt && f.time(row.receivedAt), sorted: true },
                  { name: t.programs.status, cell: (row) => row.status && <Badge tone={row.status === "received" && row.reason ? "warn" : tones[row.status]}>{t.stripe.outcome[row.status]}</Badge> },
                  { name: t.stripe.reason, cell: (row) => (row.reason ? (reasons[row.reason] ?? row.reason) : "–") },
                  { name: t.stripe.conversion, cell: (row) => (row.conversionId ? <Link href={`/conversions/${row.conversionId}`}>{t.stripe.open}</Link> : "–") },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </Card>
  );
}
