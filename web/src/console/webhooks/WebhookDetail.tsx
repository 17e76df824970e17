import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { useLocation, useParams } from "wouter";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { Button, Checkbox, LinkButton, TextField } from "../../kit/controls";
import { Done, Failure, Loaded, Notice } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Page, Tabs } from "../../kit/page";
import { useCan } from "../can";
import { Confirm, Decided, useDecision } from "../decision";
import { SecretDialog } from "../SecretDialog";
import { useTexts } from "../texts";
import { useFailure, useReload, useWebhook, type Webhook } from "./data";
import { Deliveries } from "./Deliveries";
import { Events } from "./Events";
import { useProblem, WebhookBadge } from "./WebhookBadge";

/** The page of an endpoint: its state, its deliveries and its settings. */
export default function WebhookDetail() {
  const { id = "" } = useParams<{ id: string }>();
  const { t } = useTexts();
  const [show] = useParameter("show", "deliveries");
  const query = useWebhook(id);
  return (
    <Page title={query.data?.description || t.webhooks.one} about={query.data?.url} actions={<LinkButton href="/webhooks">{t.webhooks.all}</LinkButton>}>
      <Loaded query={query}>
        {(webhook) => (
          <>
            <State webhook={webhook} />
            <Tabs
              label={t.webhooks.one}
              tabs={[
                ["deliveries", t.webhooks.deliveries],
                ["settings", t.nav.settings],
              ]}
            />
            {show === "settings" ? <Settings webhook={webhook} /> : <Deliveries webhook={webhook} />}
          </>
        )}
      </Loaded>
    </Page>
  );
}

/** The status in words, a test of the endpoint, and turning it on and off. */
function State({ webhook }: { webhook: Webhook }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const failure = useFailure();
  const problem = useProblem(webhook);
  const state = useDecision(useReload());
  const [stopping, setStopping] = useState(false);
  const [ping, setPing] = useState<{ success: boolean; text: string } | null>(null);
  const params = { path: { webhookId: webhook.id } };
  const setActive = (active: boolean) =>
    state.run(async () => {
      unwrap(await api.PATCH("/api/v1/webhooks/{webhookId}", { params, body: { active } }));
      return active ? t.webhooks.enabled : t.webhooks.stopped;
    });
  const test = () => {
    setPing(null);
    return state.run(async () => {
      const { success, httpStatusCode, errorMessage } = unwrap(await api.POST("/api/v1/webhooks/{webhookId}/test-ping", { params }));
      setPing({ success, text: success ? t.webhooks.pingDone(f.number(httpStatusCode ?? 0)) : t.webhooks.pingFailed(failure(errorMessage)) });
      return "";
    });
  };
  return (
    <Card title={t.webhooks.status} action={<WebhookBadge webhook={webhook} />}>
      {problem && <p>{problem}</p>}
      <Facts
        rows={[
          [t.webhooks.events, webhook.subscriptions.map((name) => (name === "*" ? t.webhooks.allEvents : name)).join(", ")],
          [t.webhooks.last, webhook.lastDeliveryAt ? f.time(webhook.lastDeliveryAt) : t.webhooks.never],
          [t.webhooks.created, webhook.createdAt && f.time(webhook.createdAt)],
        ]}
      />
      <Decided state={state} />
      {ping && (
        <Done key={ping.text} tone={ping.success ? "good" : "bad"}>
          {ping.text}
        </Done>
      )}
      <div className={kit.actions}>
        {can("TestWebhook") && (
          <Button isPending={state.pending} onPress={() => void test()}>
            {t.webhooks.ping}
          </Button>
        )}
        {can("UpdateWebhook") &&
          (webhook.active ? (
            <Button kind="danger" onPress={() => setStopping(true)}>
              {t.webhooks.stop}
            </Button>
          ) : (
            <Button kind="primary" isPending={state.pending} onPress={() => void setActive(true)}>
              {t.webhooks.enable}
            </Button>
          ))}
      </div>
      {stopping && (
        <Confirm title={t.webhooks.stopTitle(webhook.url)} hint={t.webhooks.stopHint} label={t.webhooks.stop} danger onConfirm={() => setActive(false)} onClose={() => setStopping(false)} />
      )}
    </Card>
  );
}

function Settings({ webhook }: { webhook: Webhook }) {
  const can = useCan();
  const { t } = useTexts();
  return (
    <>
      {can("UpdateWebhook") ? (
        <Edit webhook={webhook} />
      ) : (
        <Card>
          <p>{t.webhooks.readOnly}</p>
        </Card>
      )}
      {can("RotateWebhookSecret") && <Secret webhook={webhook} />}
      {can("DeleteWebhook") && <Delete webhook={webhook} />}
    </>
  );
}

function Edit({ webhook }: { webhook: Webhook }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const [events, setEvents] = useState(webhook.subscriptions);
  const [saved, setSaved] = useState(0);
  const state = useSubmit(
    useCallback(
      async ({ description = "" }) => {
        if (events.length === 0) throw new FieldFault("scope", t.webhooks.needsEvent);
        const params = { path: { webhookId: webhook.id } };
        unwrap(await api.PATCH("/api/v1/webhooks/{webhookId}", { params, body: { description: description.trim() || null, subscriptions: events } }));
        await reload();
        setSaved((count) => count + 1);
      },
      [api, events, reload, t, webhook.id],
    ),
  );
  return (
    <Card title={t.webhooks.edit}>
      {saved > 0 && <Done key={saved}>{t.saved}</Done>}
      <Form state={state} label={t.save}>
        <TextField label={t.webhooks.url} value={webhook.url} isReadOnly hint={t.webhooks.urlFixed} />
        <TextField name="description" label={`${t.webhooks.description} (${t.form.optional})`} defaultValue={webhook.description ?? ""} maxLength={200} />
        <Events value={events} onChange={setEvents} />
      </Form>
    </Card>
  );
}

/** A new signing secret, which is shown once. */
function Secret({ webhook }: { webhook: Webhook }) {
  const { api } = useApp();
  const { t } = useTexts();
  const [asking, setAsking] = useState(false);
  const [secret, setSecret] = useState("");
  const [atOnce, setAtOnce] = useState(false);
  const state = useSubmit(
    useCallback(async () => {
      const params = { path: { webhookId: webhook.id } };
      const { signingSecret } = unwrap(await api.POST("/api/v1/webhooks/{webhookId}/rotate-secret", { params, body: { expireImmediately: atOnce } }));
      setAsking(false);
      setSecret(signingSecret);
    }, [api, atOnce, webhook.id]),
  );
  return (
    <Card title={t.webhooks.secret} action={<Button onPress={() => setAsking(true)}>{t.webhooks.rotate}</Button>}>
      <p className={kit.muted}>{t.webhooks.secretAbout}</p>
      {asking && (
        <FormDialog title={t.webhooks.rotateTitle(webhook.url)} state={state} label={t.webhooks.rotate} onClose={() => setAsking(false)}>
          <p>{t.webhooks.rotateHint}</p>
          <Checkbox isSelected={atOnce} onChange={setAtOnce}>
            {t.webhooks.atOnce}
          </Checkbox>
          {atOnce && <Notice tone="warn">{t.webhooks.atOnceHint}</Notice>}
        </FormDialog>
      )}
      {secret && <SecretDialog title={t.webhooks.secret} hint={t.webhooks.secretHint} secret={secret} onClose={() => setSecret("")} />}
    </Card>
  );
}

function Delete({ webhook }: { webhook: Webhook }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const [, navigate] = useLocation();
  const queries = useQueryClient();
  const [asking, setAsking] = useState(false);
  const remove = useMutation({
    mutationFn: async () => {
      unwrap(await api.DELETE("/api/v1/webhooks/{webhookId}", { params: { path: { webhookId: webhook.id } } }));
      navigate("/webhooks");
      queries.removeQueries({ queryKey: [mode, "webhooks", "list"] });
    },
  });
  return (
    <Card
      title={t.webhooks.remove}
      action={
        <Button kind="danger" onPress={() => setAsking(true)}>
          {t.webhooks.remove}
        </Button>
      }
    >
      <p className={kit.muted}>{t.webhooks.removeHint}</p>
      {remove.isError && <Failure error={remove.error} />}
      {asking && <Confirm title={t.webhooks.removeTitle(webhook.url)} hint={t.webhooks.removeHint} label={t.webhooks.remove} danger onConfirm={() => remove.mutateAsync().catch(() => {})} onClose={() => setAsking(false)} />}
    </Card>
  );
}
