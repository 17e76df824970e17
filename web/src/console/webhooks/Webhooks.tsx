import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { unwrap, useApp } from "../../app/app";
import { Button, ExternalLink } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Table } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { useTexts } from "../texts";
import { CreateWebhook } from "./CreateWebhook";
import type { Webhook } from "./data";
import { useProblem, WebhookBadge } from "./WebhookBadge";

/** The largest number of endpoints in a mode. */
const limit = 10;

/** The webhook endpoints of the mode. */
export default function Webhooks() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const [creating, setCreating] = useState(false);
  const query = useQuery({
    queryKey: [mode, "webhooks", "list"],
    queryFn: async () => unwrap(await api.GET("/api/v1/webhooks", { params: { query: { pageSize: 100 } } })),
    refetchInterval: liveInterval,
  });
  const isFull = (query.data?.total ?? 0) >= limit;
  const create = can("CreateWebhook") && !isFull && (
    <Button kind="primary" onPress={() => setCreating(true)}>
      {t.webhooks.create}
    </Button>
  );
  return (
    <Page title={t.webhooks.title} about={t.webhooks.about} actions={query.data && query.data.total > 0 && create}>
      <Loaded query={query}>
        {({ data }) =>
          data.length === 0 ? (
            <Card>
              <Empty title={t.webhooks.none} action={create}>
                {t.webhooks.noneHint}
              </Empty>
            </Card>
          ) : (
            <Table
              caption={t.webhooks.title}
              rows={data}
              columns={[
                { name: t.webhooks.url, cell: (row) => <Link href={`/webhooks/${row.id}`}>{row.url}</Link>, lead: true },
                { name: t.webhooks.description, cell: (row) => row.description ?? "–" },
                { name: t.webhooks.events, cell: (row) => row.subscriptions.map((name) => (name === "*" ? t.webhooks.allEvents : name)).join(", ") },
                { name: t.webhooks.last, cell: (row) => (row.lastDeliveryAt ? f.time(row.lastDeliveryAt) : t.webhooks.never) },
                { name: t.webhooks.status, cell: (row) => <Status webhook={row} /> },
              ]}
            />
          )
        }
      </Loaded>
      {isFull && <p className={kit.muted}>{t.webhooks.full(f.number(limit))}</p>}
      <p className={kit.muted}>
        {t.webhooks.docs} <ExternalLink href="/docs">{t.webhooks.reference}</ExternalLink>
      </p>
      {creating && <CreateWebhook onClose={() => setCreating(false)} />}
    </Page>
  );
}

function Status({ webhook }: { webhook: Webhook }) {
  const problem = useProblem(webhook);
  return (
    <div>
      <WebhookBadge webhook={webhook} />
      {problem && <p className={kit.muted}>{problem}</p>}
    </div>
  );
}
