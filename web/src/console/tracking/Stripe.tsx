import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { Refusal, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button, Checkbox, ExternalLink, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Done, Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval, useReloadOf } from "../data";
import { useTexts } from "../texts";
import { instantOf } from "../time";
import { optionalPermissions, stripeKeyAddress } from "./snippets";
import { StripeEvents } from "./StripeEvents";

type Connection = Schemas["ProcessorConnection"];

/** The connection to Stripe in the mode. */
export function Stripe() {
  const { api, mode } = useApp();
  const query = useQuery({
    queryKey: [mode, "stripe"],
    queryFn: async () => unwrap(await api.GET("/api/v1/integrations/{processor}", { params: { path: { processor: "stripe" } } })),
    refetchInterval: liveInterval,
  });
  return (
    <Loaded query={query}>
      {(connection) =>
        connection.connected ? (
          <>
            <Status connection={connection} />
            <StripeEvents />
          </>
        ) : (
          <NotConnected />
        )
      }
    </Loaded>
  );
}

function NotConnected() {
  const { t } = useTexts();
  const can = useCan();
  return (
    <Card title={t.stripe.connect}>
      <p>{t.stripe.about}</p>
      {can("ConnectProcessor") ? <ConnectForm connection={null} /> : <Notice>{t.stripe.forbidden}</Notice>}
    </Card>
  );
}

/** Asks for a restricted key. A connection gets a new key by the same form. */
function ConnectForm({ connection, onDone, onClose }: { connection: Connection | null; onDone?: () => void; onClose?: () => void }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("stripe", "set-up");
  const [codes, setCodes] = useState(false);
  const [fees, setFees] = useState(false);
  const [missing, setMissing] = useState<string[]>([]);
  const refusals: Record<string, string> = t.stripe.refusals;
  const state = useSubmit(
    useCallback(
      async ({ restrictedKey = "", createConversions, includeOutOfBand }) => {
        setMissing([]);
        const body = { restrictedKey, createConversions: createConversions !== undefined, includeOutOfBand: includeOutOfBand !== undefined };
        const result = await api.POST("/api/v1/integrations/{processor}", { params: { path: { processor: "stripe" } }, body });
        const refused = result.error as { code?: string; missingPermissions?: string[] } | undefined;
        setMissing(refused?.missingPermissions ?? []);
        const refusal = refusals[refused?.code ?? ""];
        if (refusal) throw new Refusal(refusal);
        unwrap(result);
        await reload();
        onDone?.();
      },
      [api, onDone, refusals, reload],
    ),
  );
  const names: Record<string, string> = t.stripe.permissions;
  const address = stripeKeyAddress(mode === "test", [...(codes ? optionalPermissions.codes : []), ...(fees ? optionalPermissions.fees : [])]);
  return (
    <Form state={state} label={connection ? t.stripe.replace : t.stripe.connect} secondary={onClose && <Button onPress={onClose}>{t.cancel}</Button>}>
      <p>{t.stripe.keyHint[mode]}</p>
      <Checkbox isSelected={codes} onChange={setCodes}>
        {t.stripe.withCodes}
      </Checkbox>
      <Checkbox isSelected={fees} onChange={setFees}>
        {t.stripe.withFees}
      </Checkbox>
      <p>
        <ExternalLink href={address}>{t.stripe.createKey}</ExternalLink>
      </p>
      <TextField name="restrictedKey" type="password" label={t.stripe.key} hint={t.stripe.keyField[mode]} autoComplete="off" maxLength={255} isRequired />
      <Checkbox name="createConversions" defaultSelected={connection?.createConversions ?? true}>
        {t.stripe.createConversions} <span className={kit.hint}>{t.stripe.createConversionsHint}</span>
      </Checkbox>
      <Checkbox name="includeOutOfBand" defaultSelected={connection?.includeOutOfBand ?? false}>
        {t.stripe.includeOutOfBand} <span className={kit.hint}>{t.stripe.includeOutOfBandHint}</span>
      </Checkbox>
      {missing.length > 0 && (
        <ul className={kit.rules}>
          {missing.map((name) => (
            <li key={name}>{names[name] ?? name}</li>
          ))}
        </ul>
      )}
    </Form>
  );
}

function Status({ connection }: { connection: Connection }) {
  const { t, f } = useTexts();
  const can = useCan();
  const [open, setOpen] = useState<"key" | "resync" | "disconnect" | null>(null);
  const [done, setDone] = useState("");
  const close = () => setOpen(null);
  const { accountId, endpointStatus, lastEventAt, lag, signatureFailures, connectedAt, webhookUrl, createConversions, includeOutOfBand } = connection;
  const states: Record<string, string> = t.stripe.endpoint;
  const isHealthy = endpointStatus === "enabled";
  return (
    <Card title={t.stripe.connected} action={<Badge tone={isHealthy ? "good" : "bad"}>{states[endpointStatus ?? ""] ?? endpointStatus}</Badge>}>
      {done && <Done key={done}>{done}</Done>}
      {!isHealthy && <Notice tone="warn">{endpointStatus === "unknown" ? t.stripe.unknownHint : t.stripe.endpointHint}</Notice>}
      {!!signatureFailures && <Notice tone="warn">{t.stripe.signatureHint}</Notice>}
      <Facts
        rows={[
          [t.stripe.account, accountId],
          [t.stripe.since, connectedAt && f.time(connectedAt)],
          [t.stripe.lastEvent, lastEventAt ? <time title={f.time(lastEventAt)}>{f.relative(lastEventAt)}</time> : t.stripe.noEvent],
          [t.stripe.lag, t.stripe.seconds(lag ?? 0)],
          [t.stripe.signatures, f.number(signatureFailures ?? 0)],
          [t.stripe.address, webhookUrl],
          [t.stripe.createConversions, createConversions ? t.rules.yes : t.rules.no],
          [t.stripe.includeOutOfBand, includeOutOfBand ? t.rules.yes : t.rules.no],
        ]}
      />
      {can("ConnectProcessor") && (
        <div className={kit.actions}>
          <Button onPress={() => setOpen("resync")}>{t.stripe.resync}</Button>
          <Button onPress={() => setOpen("key")}>{t.stripe.replace}</Button>
          <Button kind="danger" onPress={() => setOpen("disconnect")}>
            {t.stripe.disconnect}
          </Button>
        </div>
      )}
      {open === "key" && (
        <Dialog title={t.stripe.replace} open onClose={close}>
          <p>{t.stripe.replaceHint}</p>
          <ConnectForm
            connection={connection}
            onClose={close}
            onDone={() => {
              setDone(t.stripe.replaced);
              close();
            }}
          />
        </Dialog>
      )}
      {open === "resync" && <Resync onDone={() => setDone(t.stripe.resynced)} onClose={close} />}
      {open === "disconnect" && <Disconnect connection={connection} onClose={close} />}
    </Card>
  );
}

/** The days that a resync can go back. Stripe keeps events for 30 days. */
const longest = 29;

function Resync({ onDone, onClose }: { onDone: () => void; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReloadOf("stripe", "set-up");
  const day = (days: number) => f.isoDay(new Date(Date.now() - days * 86_400_000));
  const state = useSubmit(
    useCallback(
      async ({ since }) => {
        const body = { since: instantOf(`${since}T00:00:00`, f.timeZone).toISOString() };
        unwrap(await api.POST("/api/v1/integrations/{processor}/resync", { params: { path: { processor: "stripe" } }, body }));
        await reload();
        onDone();
        onClose();
      },
      [api, f, onClose, onDone, reload],
    ),
  );
  return (
    <FormDialog title={t.stripe.resync} state={state} label={t.stripe.resync} onClose={onClose}>
      <p>{t.stripe.resyncHint}</p>
      <TextField name="since" type="date" label={t.stripe.from} hint={t.stripe.fromHint(f.date(`${day(longest)}T12:00:00Z`))} defaultValue={day(1)} isRequired />
    </FormDialog>
  );
}

function Disconnect({ connection, onClose }: { connection: Connection; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("stripe", "set-up");
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/integrations/{processor}", { params: { path: { processor: "stripe" } } }));
      await reload();
      onClose();
    }, [api, onClose, reload]),
  );
  return (
    <FormDialog title={t.stripe.disconnectTitle(connection.accountId ?? "")} state={state} label={t.stripe.disconnect} kind="danger" onClose={onClose}>
      <p>{t.stripe.disconnectHint}</p>
    </FormDialog>
  );
}
