import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { CopyButton } from "../../kit/sharing";
import { useCan } from "../can";
import { Decided, useDecision } from "../decision";
import { useTexts } from "../texts";
import { deliveryTones, useFailure, useReload, type Webhook } from "./data";

/** A delivery with its attempts at the side of the list. */
export function DeliveryPanel({ webhook, id, onClose }: { webhook: Webhook; id: string; onClose: () => void }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const path = { webhookId: webhook.id, deliveryId: id };
  const query = useQuery({
    queryKey: [mode, "webhooks", "delivery", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}", { params: { path } })),
    refetchInterval: 5_000,
  });
  return (
    <Dialog title={query.data?.eventType ?? t.webhooks.delivery} open side onClose={onClose}>
      <Loaded query={query}>
        {(delivery) => (
          <>
            <State webhook={webhook} delivery={delivery} />
            <Attempts attempts={delivery.attempts} />
            <Payload payload={delivery.payload} />
          </>
        )}
      </Loaded>
    </Dialog>
  );
}

function State({ webhook, delivery }: { webhook: Webhook; delivery: Schemas["DeliveryDetail"] }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const state = useDecision(useReload());
  const { id, status, eventId, createdAt, completedAt, nextAttemptAt, requestUrl } = delivery;
  const retry = () =>
    state.run(async () => {
      unwrap(await api.POST("/api/v1/webhooks/{webhookId}/deliveries/{deliveryId}/retry", { params: { path: { webhookId: webhook.id, deliveryId: id } } }));
      return t.webhooks.retried;
    });
  return (
    <Card title={t.webhooks.status} action={status && <Badge tone={deliveryTones[status]}>{t.webhooks.deliveryStatuses[status]}</Badge>}>
      {status && <p>{t.webhooks.deliveryHints[status]}</p>}
      <Facts
        rows={[
          [t.webhooks.eventId, <code className={kit.code}>{eventId}</code>],
          [t.webhooks.url, requestUrl],
          [t.webhooks.created, createdAt && f.time(createdAt)],
          [t.webhooks.next, nextAttemptAt && f.time(nextAttemptAt)],
          [t.webhooks.ended, completedAt && f.time(completedAt)],
        ]}
      />
      <Decided state={state} />
      {can("RetryDelivery") &&
        (webhook.active ? (
          <div className={kit.actions}>
            <Button kind="primary" isPending={state.pending} onPress={() => void retry()}>
              {t.webhooks.retry}
            </Button>
          </div>
        ) : (
          <p className={kit.muted}>{t.webhooks.enableFirst}</p>
        ))}
    </Card>
  );
}

function Attempts({ attempts }: { attempts: Schemas["DeliveryAttempt"][] }) {
  const { t, f } = useTexts();
  const failure = useFailure();
  return (
    <Card title={t.webhooks.attempts}>
      {attempts.length === 0 ? (
        <p className={kit.muted}>{t.webhooks.noAttempt}</p>
      ) : (
        <ol className={kit.list}>
          {attempts.map(({ number, startedAt, durationMs, httpStatusCode, errorMessage }) => (
            <li key={number}>
              <div>
                <p>
                  <strong>{t.webhooks.attempt(f.number(number))}</strong> {failure(errorMessage) || t.webhooks.httpStatus(String(httpStatusCode ?? ""))}
                </p>
                <p className={kit.muted}>{t.webhooks.took(f.number(durationMs))}</p>
              </div>
              {startedAt && <time dateTime={startedAt}>{f.time(startedAt)}</time>}
            </li>
          ))}
        </ol>
      )}
    </Card>
  );
}

/** The body that is sent, in lines. The copy is exact, because the signature is that of the bytes. */
function Payload({ payload }: { payload: string | null }) {
  const { t } = useTexts();
  return (
    <Card title={t.webhooks.payload} action={payload && <CopyButton text={payload} />}>
      {payload ? (
        <pre className={kit.pre} tabIndex={0} aria-label={t.webhooks.payload}>
          {JSON.stringify(JSON.parse(payload), null, 2)}
        </pre>
      ) : (
        <p className={kit.muted}>{t.webhooks.noPayload}</p>
      )}
    </Card>
  );
}
