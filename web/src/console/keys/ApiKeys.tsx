import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Table } from "../../kit/page";
import { CopyText } from "../../kit/sharing";
import { useCan } from "../can";
import { liveInterval, useReloadOf } from "../data";
import { SecretDialog } from "../SecretDialog";
import { SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";
import { instantOf } from "../time";

type Key = Schemas["ApiKey"];

/** The keys of the mode, by which the pages and servers of the merchant use the API. */
export function useKeys() {
  const { api, mode } = useApp();
  return useQuery({ queryKey: [mode, "keys"], queryFn: async () => unwrap(await api.GET("/api/v1/api-keys")), refetchInterval: liveInterval });
}

type Open = { view: "create" } | { view: "roll" | "revoke"; key: Pick<Key, "id" | "name" | "prefix"> };

export default function ApiKeys() {
  const { t, f } = useTexts();
  const { mode } = useApp();
  const can = useCan();
  const query = useKeys();
  const [open, setOpen] = useState<Open | null>(null);
  const [secret, setSecret] = useState("");
  const close = () => setOpen(null);
  const roll = (key: Pick<Key, "id" | "name" | "prefix">) => (
    <Button small aria-label={`${t.keys.roll}: ${key.name}`} onPress={() => setOpen({ view: "roll", key })}>
      {t.keys.roll}
    </Button>
  );
  return (
    <SettingsPage title={t.keys.title} about={t.keys.about[mode]}>
      <Loaded query={query}>
        {({ publicKey, publicKeyId, secretKeys }) => (
          <>
            <Card title={t.keys.publicKey} action={can("RollApiKey") && roll({ id: publicKeyId, name: t.keys.publicKey, prefix: "pk_" })}>
              <p className={kit.muted}>{t.keys.publicHint}</p>
              <CopyText label={t.keys.publicKey} text={publicKey} />
            </Card>
            <Card
              title={t.keys.secretKeys}
              action={
                can("CreateApiKey") && (
                  <Button kind="primary" onPress={() => setOpen({ view: "create" })}>
                    {t.keys.create}
                  </Button>
                )
              }
            >
              <p className={kit.muted}>{t.keys.secretHint}</p>
              {secretKeys.length === 0 ? (
                <Empty title={t.keys.none}>{t.keys.noneHint}</Empty>
              ) : (
                <Table
                  caption={t.keys.secretKeys}
                  rows={secretKeys}
                  columns={[
                    { name: t.form.name, cell: (key) => key.name, lead: true },
                    { name: t.keys.key, cell: (key) => <span className={kit.code}>{`${key.prefix}…${key.last4}`}</span> },
                    { name: t.keys.created, cell: (key) => key.createdAt && f.date(key.createdAt), sorted: true },
                    { name: t.keys.used, cell: (key) => (key.lastUsedAt ? <time title={f.time(key.lastUsedAt)}>{f.relative(key.lastUsedAt)}</time> : t.keys.never) },
                    { name: t.keys.expires, cell: (key) => (key.expiresAt ? f.time(key.expiresAt) : t.keys.noExpiry) },
                    ...(can("RevokeApiKey")
                      ? [
                          {
                            name: t.links.action,
                            cell: (key: Key) => (
                              <span className={kit.actions}>
                                {roll(key)}
                                <Button small kind="danger" aria-label={`${t.keys.revoke}: ${key.name}`} onPress={() => setOpen({ view: "revoke", key })}>
                                  {t.keys.revoke}
                                </Button>
                              </span>
                            ),
                          },
                        ]
                      : []),
                  ]}
                />
              )}
            </Card>
          </>
        )}
      </Loaded>
      {open?.view === "create" && <CreateKey onCreated={setSecret} onClose={close} />}
      {open?.view === "roll" && <RollKey target={open.key} onCreated={setSecret} onClose={close} />}
      {open?.view === "revoke" && <RevokeKey target={open.key} onClose={close} />}
      {secret && <SecretDialog title={t.keys.newKey} hint={t.keys.once} secret={secret} onClose={() => setSecret("")} />}
    </SettingsPage>
  );
}

function CreateKey({ onCreated, onClose }: { onCreated: (secret: string) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReloadOf("keys", "set-up");
  const state = useSubmit(
    useCallback(
      async ({ name = "", expiresAt }) => {
        // The key works until the end of the day.
        const body = { name, ...(expiresAt && { expiresAt: instantOf(`${expiresAt}T23:59:59`, f.timeZone).toISOString() }) };
        const { secretKey } = unwrap(await api.POST("/api/v1/api-keys", { body }));
        await reload();
        onClose();
        onCreated(secretKey ?? "");
      },
      [api, f, onClose, onCreated, reload],
    ),
  );
  return (
    <FormDialog title={t.keys.create} state={state} label={t.keys.create} onClose={onClose}>
      <TextField name="name" label={t.form.name} hint={t.keys.nameHint} maxLength={100} isRequired />
      <TextField name="expiresAt" type="date" label={`${t.keys.expires} (${t.form.optional})`} hint={t.keys.expiresHint} />
    </FormDialog>
  );
}

/** The hours for which the old key continues to work. */
export const graces = [0, 1, 24, 72];

function RollKey({ target, onCreated, onClose }: { target: Pick<Key, "id" | "name" | "prefix">; onCreated: (secret: string) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("keys", "set-up");
  const isPublic = target.prefix.startsWith("pk_");
  const state = useSubmit(
    useCallback(
      async ({ graceHours }) => {
        const body = { graceHours: Number(graceHours) };
        const { secretKey } = unwrap(await api.POST("/api/v1/api-keys/{keyId}/roll", { params: { path: { keyId: target.id } }, body }));
        await reload();
        onClose();
        if (secretKey) onCreated(secretKey);
      },
      [api, onClose, onCreated, reload, target.id],
    ),
  );
  return (
    <FormDialog title={t.keys.rollTitle(target.name)} state={state} label={t.keys.roll} onClose={onClose}>
      <p>{isPublic ? t.keys.rollPublic : t.keys.rollSecret}</p>
      <Select name="graceHours" label={t.keys.grace} options={graces.map((hours): [string, string] => [String(hours), t.keys.hours(hours)])} defaultValue="24" />
    </FormDialog>
  );
}

function RevokeKey({ target, onClose }: { target: Pick<Key, "id" | "name">; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("keys", "set-up");
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/api-keys/{keyId}", { params: { path: { keyId: target.id } } }));
      await reload();
      onClose();
    }, [api, onClose, reload, target.id]),
  );
  return (
    <FormDialog title={t.keys.revokeTitle(target.name)} state={state} label={t.keys.revoke} kind="danger" onClose={onClose}>
      <p>{t.keys.revokeHint}</p>
    </FormDialog>
  );
}
