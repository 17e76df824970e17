import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useAddressWith, useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton, SearchField, TextField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { useTexts } from "../texts";
import { type Delivery, deliveryStatuses, deliveryTones, useEventTypes, useFailure, type Webhook } from "./data";
import { DeliveryPanel } from "./DeliveryPanel";
import { Recover } from "./Recover";

/** The deliveries of an endpoint in the last 30 days. */
export function Deliveries({ webhook }: { webhook: Webhook }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const failure = useFailure();
  const page = usePage();
  const [open, setOpen] = useParameter("open");
  const addressOf = useAddressWith("open");
  const [chosen, setStatus] = useParameter("status");
  const [event] = useParameter("event");
  const [eventType, setEventType] = useParameter("type");
  const [dateFrom, setFrom] = useParameter("from");
  const [dateTo, setTo] = useParameter("to");
  const [recovering, setRecovering] = useState(false);
  const status = deliveryStatuses.find((status) => status === chosen);
  const eventId = event.trim();
  const isEvent = /^evt_[0-9a-f]{32}$/.test(eventId);
  const types = useEventTypes().data ?? [];
  const filters = {
    ...(status && { status }),
    ...(isEvent && { eventId }),
    ...(eventType && { eventType }),
    ...(dateFrom && { dateFrom, timezone: f.timeZone }),
    ...(dateTo && { dateTo, timezone: f.timeZone }),
  };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "webhooks", "deliveries", webhook.id, filters, page],
    queryFn: async () => {
      const params = { path: { webhookId: webhook.id }, query: { ...filters, ...pageOf(page) } };
      return listOf(await api.GET("/api/v1/webhooks/{webhookId}/deliveries", { params }));
    },
    refetchInterval: liveInterval,
  });
  return (
    <>
      <div className={kit.filters}>
        <Select
          label={t.webhooks.status}
          options={[["", t.filter.all], ...deliveryStatuses.map((status): [string, string] => [status, t.webhooks.deliveryStatuses[status]])]}
          value={status ?? ""}
          onChange={(key) => setStatus(String(key))}
        />
        <Select
          label={t.webhooks.event}
          options={[["", t.filter.all], ...types.map(({ name }): [string, string] => [name, name])]}
          value={eventType}
          onChange={(key) => setEventType(String(key))}
        />
        <TextField type="date" label={t.filter.from} value={dateFrom} onChange={setFrom} />
        <TextField type="date" label={t.filter.to} value={dateTo} onChange={setTo} />
        <SearchField parameter="event" label={t.webhooks.eventId} hint={eventId && !isEvent ? t.webhooks.eventIdHint : undefined} />
        {can("RecoverDeliveries") && webhook.active && <Button onPress={() => setRecovering(true)}>{t.webhooks.recover}</Button>}
      </div>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {Object.keys(filters).length > 0 ? (
                <Empty title={t.webhooks.noDeliveryFiltered} action={<LinkButton href={`/webhooks/${webhook.id}`}>{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.webhooks.noDelivery}>{t.webhooks.noDeliveryHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.webhooks.deliveries}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  { name: t.webhooks.event, cell: (row) => <Link href={addressOf(row.id)}>{row.eventType}</Link>, lead: true },
                  { name: t.webhooks.created, cell: (row) => row.createdAt && f.time(row.createdAt), sorted: true },
                  { name: t.webhooks.attempts, cell: (row) => f.number(row.attemptCount), number: true },
                  { name: t.webhooks.result, cell: (row: Delivery) => failure(row.errorMessage) || (row.httpStatusCode ? t.webhooks.httpStatus(String(row.httpStatusCode)) : "–") },
                  { name: t.webhooks.next, cell: (row) => (row.nextAttemptAt ? f.time(row.nextAttemptAt) : "–") },
                  { name: t.webhooks.status, cell: (row) => row.status && <Badge tone={deliveryTones[row.status]}>{t.webhooks.deliveryStatuses[row.status]}</Badge> },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open && <DeliveryPanel webhook={webhook} id={open} onClose={() => setOpen("")} />}
      {recovering && <Recover webhook={webhook} onClose={() => setRecovering(false)} />}
    </>
  );
}
