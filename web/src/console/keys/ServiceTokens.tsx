import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp, useSession } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Choice, Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval, useReloadOf } from "../data";
import { SecretDialog } from "../SecretDialog";
import { restricted, SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";
import { instantOf } from "../time";
import { graces } from "./ApiKeys";

type Token = Schemas["ServiceToken"];
type Open = { view: "create" } | { view: "roll" | "revoke"; token: Token };

/** The credentials of programs that manage the workspace, of both modes. */
function ServiceTokens() {
  const { api, mode, session } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const login = useSession(session);
  const isOwner = login.status === "in" && login.user.role === "owner";
  const [open, setOpen] = useState<Open | null>(null);
  const [secret, setSecret] = useState("");
  const close = () => setOpen(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "service-tokens", page],
    queryFn: async () => listOf(await api.GET("/api/v1/service-tokens", { params: { query: pageOf(page) } })),
    refetchInterval: liveInterval,
  });
  const create = can("CreateServiceToken") && (
    <Button kind="primary" onPress={() => setOpen({ view: "create" })}>
      {t.keys.tokens.create}
    </Button>
  );
  const used = (token: Token) =>
    token.lastUsedAt ? (
      <span>
        <time title={f.time(token.lastUsedAt)}>{f.relative(token.lastUsedAt)}</time>
        {token.lastUsedIpPrefix && <span className={kit.muted}> {t.settings.network(token.lastUsedIpPrefix)}</span>}
      </span>
    ) : (
      t.keys.never
    );
  return (
    <SettingsPage title={t.keys.tokens.title} about={t.keys.tokens.about} actions={create}>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              <Empty title={t.keys.tokens.none}>{t.keys.tokens.noneHint}</Empty>
            </Card>
          ) : (
            <>
              <Table
                caption={t.keys.tokens.title}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.form.name,
                    cell: (token) => (
                      <>
                        {token.name} {token.mode && <Badge tone={token.mode === "live" ? "good" : "info"}>{t.keys.tokens.modes[token.mode]}</Badge>}
                      </>
                    ),
                    lead: true,
                  },
                  {
                    name: t.profile.role,
                    cell: (token) => (
                      <span>
                        {token.role && t.roles[token.role]} {token.allowPayouts && <Badge tone="warn">{t.keys.tokens.payouts}</Badge>}
                      </span>
                    ),
                  },
                  { name: t.keys.tokens.token, cell: (token) => <span className={kit.code}>{`${token.prefix}…${token.last4}`}</span> },
                  { name: t.keys.used, cell: used },
                  { name: t.keys.expires, cell: (token) => token.expiresAt && <time title={f.time(token.expiresAt)}>{f.date(token.expiresAt)}</time> },
                  {
                    name: t.links.action,
                    cell: (token) => (
                      <span className={kit.actions}>
                        {(isOwner || !token.allowPayouts) && (
                          <Button small aria-label={`${t.keys.roll}: ${token.name}`} onPress={() => setOpen({ view: "roll", token })}>
                            {t.keys.roll}
                          </Button>
                        )}
                        <Button small kind="danger" aria-label={`${t.keys.revoke}: ${token.name}`} onPress={() => setOpen({ view: "revoke", token })}>
                          {t.keys.revoke}
                        </Button>
                      </span>
                    ),
                  },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open?.view === "create" && <CreateToken isOwner={isOwner} onCreated={setSecret} onClose={close} />}
      {open?.view === "roll" && <RollToken target={open.token} onCreated={setSecret} onClose={close} />}
      {open?.view === "revoke" && <RevokeToken target={open.token} onClose={close} />}
      {secret && <SecretDialog title={t.keys.tokens.newToken} hint={t.keys.tokens.once} secret={secret} onClose={() => setSecret("")} />}
    </SettingsPage>
  );
}

export default restricted("ListServiceTokens", ServiceTokens);

const roles = ["viewer", "developer", "finance", "manager", "admin"] as const;

function CreateToken({ isOwner, onCreated, onClose }: { isOwner: boolean; onCreated: (secret: string) => void; onClose: () => void }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const reload = useReloadOf("service-tokens");
  const state = useSubmit(
    useCallback(
      async ({ name = "", role: chosen, mode, expiresAt, allowPayouts }) => {
        const role = roles.find((role) => role === chosen);
        if (!role) throw new FieldFault("role", t.form.required);
        const body = {
          name,
          role,
          mode: mode === "live" ? ("live" as const) : ("test" as const),
          allowPayouts: allowPayouts === "true",
          ...(expiresAt && { expiresAt: instantOf(`${expiresAt}T23:59:59`, f.timeZone).toISOString() }),
        };
        const { token } = unwrap(await api.POST("/api/v1/service-tokens", { body }));
        await reload();
        onClose();
        onCreated(token);
      },
      [api, f, onClose, onCreated, reload, t],
    ),
  );
  return (
    <FormDialog title={t.keys.tokens.create} state={state} label={t.keys.tokens.create} onClose={onClose}>
      <TextField name="name" label={t.form.name} hint={t.keys.tokens.nameHint} maxLength={100} isRequired autoFocus />
      <Choice name="role" label={t.profile.role} options={roles.map((role): [string, string, string] => [role, t.roles[role], t.team.roles[role]])} isRequired />
      <Choice
        name="mode"
        label={t.keys.tokens.mode}
        options={[
          ["test", t.keys.tokens.modes.test],
          ["live", t.keys.tokens.modes.live],
        ]}
        defaultValue={mode}
      />
      {isOwner && (
        <Choice
          name="allowPayouts"
          label={t.keys.tokens.allowPayouts}
          options={[
            ["false", t.keys.tokens.no],
            ["true", t.keys.tokens.yes, t.keys.tokens.yesHint],
          ]}
          defaultValue="false"
        />
      )}
      <TextField name="expiresAt" type="date" label={`${t.keys.expires} (${t.form.optional})`} hint={t.keys.tokens.expiresHint} />
    </FormDialog>
  );
}

function RollToken({ target, onCreated, onClose }: { target: Token; onCreated: (secret: string) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("service-tokens");
  const state = useSubmit(
    useCallback(
      async ({ graceHours }) => {
        const params = { path: { serviceTokenId: target.id } };
        const { token } = unwrap(await api.POST("/api/v1/service-tokens/{serviceTokenId}/roll", { params, body: { graceHours: Number(graceHours) } }));
        await reload();
        onClose();
        onCreated(token);
      },
      [api, onClose, onCreated, reload, target.id],
    ),
  );
  return (
    <FormDialog title={t.keys.tokens.rollTitle(target.name)} state={state} label={t.keys.roll} onClose={onClose}>
      <p>{t.keys.tokens.rollHint}</p>
      <Select name="graceHours" label={t.keys.tokens.grace} options={graces.map((hours): [string, string] => [String(hours), t.keys.hours(hours)])} defaultValue="24" />
    </FormDialog>
  );
}

function RevokeToken({ target, onClose }: { target: Token; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("service-tokens");
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/service-tokens/{serviceTokenId}", { params: { path: { serviceTokenId: target.id } } }));
      await reload();
      onClose();
    }, [api, onClose, reload, target.id]),
  );
  return (
    <FormDialog title={t.keys.tokens.revokeTitle(target.name)} state={state} label={t.keys.revoke} kind="danger" onClose={onClose}>
      <p>{t.keys.tokens.revokeHint}</p>
    </FormDialog>
  );
}
