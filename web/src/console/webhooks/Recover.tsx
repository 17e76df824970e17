import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Button, Checkbox, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done } from "../../kit/feedback";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";
import { instantOf } from "../time";
import { useReload, type Webhook } from "./data";

const statuses = ["dead_lettered", "canceled", "failed", "delivered"] as const;
type Status = (typeof statuses)[number];

/** Sends the deliveries of a period again. */
export function Recover({ webhook, onClose }: { webhook: Webhook; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const [chosen, setChosen] = useState<Status[]>(["dead_lettered", "canceled"]);
  const [queued, setQueued] = useState<number | null>(null);
  const state = useSubmit(
    useCallback(
      async ({ since = "", until = "" }) => {
        if (!since) throw new FieldFault("since", t.webhooks.needsStart);
        const body = { since: instantOf(since, f.timeZone).toISOString(), statuses: chosen, ...(until && { until: instantOf(until, f.timeZone).toISOString() }) };
        setQueued(unwrap(await api.POST("/api/v1/webhooks/{webhookId}/recover", { params: { path: { webhookId: webhook.id } }, body })).queued);
        await reload();
      },
      [api, chosen, f, reload, t, webhook.id],
    ),
  );
  if (queued !== null) {
    return (
      <Dialog title={t.webhooks.recover} open onClose={onClose}>
        <Done>{t.webhooks.recovered(f.number(queued), queued === 0)}</Done>
        <div className={kit.actions}>
          <Button onPress={onClose}>{t.close}</Button>
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title={t.webhooks.recover} state={state} label={t.webhooks.send} onClose={onClose}>
      <p>{t.webhooks.recoverHint(webhook.url)}</p>
      <TextField name="since" type="datetime-local" label={t.filter.from} hint={t.webhooks.sinceHint(f.timeZone)} isRequired autoFocus />
      <TextField name="until" type="datetime-local" label={`${t.filter.to} (${t.form.optional})`} hint={t.webhooks.untilHint} />
      <div role="group" aria-label={t.webhooks.which}>
        <p className={kit.label}>{t.webhooks.which}</p>
        {statuses.map((status) => (
          <Checkbox
            key={status}
            isSelected={chosen.includes(status)}
            isDisabled={chosen.length === 1 && chosen[0] === status}
            onChange={(on) => setChosen(on ? [...chosen, status] : chosen.filter((other) => other !== status))}
          >
            {t.webhooks.deliveryStatuses[status]}
          </Checkbox>
        ))}
      </div>
    </FormDialog>
  );
}
