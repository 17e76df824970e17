import { useCallback, useState } from "react";
import { useLocation } from "wouter";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { SecretDialog } from "../SecretDialog";
import { useTexts } from "../texts";
import { useReload } from "./data";
import { Events } from "./Events";

/** Creates an endpoint, and shows its secret once. */
export function CreateWebhook({ onClose }: { onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const [, navigate] = useLocation();
  const reload = useReload();
  const [events, setEvents] = useState<string[]>(["*"]);
  const [created, setCreated] = useState<Schemas["CreatedWebhook"] | null>(null);
  const state = useSubmit(
    useCallback(
      async ({ url = "", description = "" }) => {
        if (events.length === 0) throw new FieldFault("scope", t.webhooks.needsEvent);
        setCreated(unwrap(await api.POST("/api/v1/webhooks", { body: { url: url.trim(), subscriptions: events, ...(description && { description }) } })));
        await reload();
      },
      [api, events, reload, t],
    ),
  );
  if (created) return <SecretDialog title={t.webhooks.secret} hint={t.webhooks.secretHint} secret={created.signingSecret} onClose={() => navigate(`/webhooks/${created.id}`)} />;
  return (
    <FormDialog title={t.webhooks.create} state={state} label={t.webhooks.create} onClose={onClose}>
      <TextField name="url" type="url" label={t.webhooks.url} hint={t.webhooks.urlHint} placeholder="https://" isRequired autoFocus maxLength={2048} />
      <TextField name="description" label={`${t.webhooks.description} (${t.form.optional})`} maxLength={200} />
      <Events value={events} onChange={setEvents} />
    </FormDialog>
  );
}
