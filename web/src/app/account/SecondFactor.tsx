import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { CopyButton, download, qrAddress } from "../../kit/sharing";
import { unwrap, useApp, useSession } from "../app";
import type { Schemas } from "../data";
import { useTexts } from "../texts";
import { CodeField } from "./CodeField";
import { confirmed } from "./secrets";
import { sessionsKey } from "./Sessions";

/** The second factor of the account: codes of an authenticator app. */
export function SecondFactor() {
  const { session } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const login = useSession(session);
  const [dialog, setDialog] = useState<"enable" | "disable" | null>(null);
  const close = useCallback(() => {
    setDialog(null);
    void queries.invalidateQueries({ queryKey: sessionsKey }); // a change ends other sessions
  }, [queries]);
  const isOn = login.status === "in" && login.user.secondFactor;
  return (
    <Card
      title={t.settings.factorTitle}
      action={
        <Button small kind={isOn ? "danger" : "primary"} onPress={() => setDialog(isOn ? "disable" : "enable")}>
          {isOn ? t.settings.factorDisable : t.settings.factorEnable}
        </Button>
      }
    >
      <p className={kit.muted}>{isOn ? t.settings.factorOn : t.settings.factorOff}</p>
      {dialog === "enable" && <Enable onClose={close} />}
      {dialog === "disable" && <Disable onClose={close} />}
    </Card>
  );
}

/** The steps: the secret for the app, a code of the app, and the recovery codes. */
function Enable({ onClose }: { onClose: () => void }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const [secret, setSecret] = useState<Schemas["EnrollTotpResponse"] | null>(null);
  const [codes, setCodes] = useState<string[] | null>(null);
  const enroll = useSubmit(
    useCallback(
      async ({ password }) => {
        const body = { ...(password && { password }) };
        setSecret(await confirmed(t, ["password"], async () => unwrap(await api.POST(`/api/v1/auth/${session.kind}/totp/enroll`, { body }))));
      },
      [api, t],
    ),
  );
  const confirm = useSubmit(
    useCallback(
      async ({ code = "" }) => {
        const { recoveryCodes } = await confirmed(t, ["code"], async () => unwrap(await api.POST(`/api/v1/auth/${session.kind}/totp/confirm`, { body: { code } })));
        setCodes(recoveryCodes);
        session.change({ secondFactor: true });
      },
      [api, session, t],
    ),
  );
  // The recovery codes are shown once, so only their button closes the dialog.
  if (codes) {
    return (
      <Dialog title={t.settings.recoveryTitle} open onClose={() => {}}>
        <RecoveryCodes codes={codes} onClose={onClose} />
      </Dialog>
    );
  }
  const cancel = <Button onPress={onClose}>{t.cancel}</Button>;
  return (
    <Dialog title={t.settings.factorTitle} open onClose={onClose}>
      {secret ? (
        <Form key="confirm" state={confirm} label={t.settings.factorConfirm} secondary={cancel}>
          <p>{t.settings.factorScan}</p>
          <img className={kit.qr} src={qrAddress(secret.otpauthUrl)} alt={t.settings.factorQr} />
          <a href={secret.otpauthUrl}>{t.settings.factorApp}</a>
          <p>
            {t.settings.factorSecret}: <code className={kit.code}>{secret.secret.replace(/.{4}(?=.)/g, "$& ")}</code>
          </p>
          <TextField name="code" label={t.settings.factorCode} autoComplete="one-time-code" inputMode="numeric" isRequired autoFocus />
        </Form>
      ) : (
        <Form key="enroll" state={enroll} label={t.account.continue} secondary={cancel}>
          <TextField name="password" type="password" label={t.form.currentPassword} hint={t.settings.confirmHint} autoComplete="current-password" autoFocus />
        </Form>
      )}
    </Dialog>
  );
}

function RecoveryCodes({ codes, onClose }: { codes: string[]; onClose: () => void }) {
  const { t } = useTexts();
  const text = codes.join("\n");
  return (
    <>
      <p>{t.settings.recoveryHint}</p>
      <ol className={kit.codes}>
        {codes.map((code) => (
          <li key={code} className={kit.code}>
            {code}
          </li>
        ))}
      </ol>
      <div className={kit.actions}>
        <CopyButton text={text} />
        <Button onPress={() => download(`data:text/plain;charset=utf-8,${encodeURIComponent(text)}`, "recovery-codes.txt")}>
          {t.settings.recoveryFile}
        </Button>
        <Button kind="primary" onPress={onClose}>
          {t.settings.recoveryDone}
        </Button>
      </div>
    </>
  );
}

function Disable({ onClose }: { onClose: () => void }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const state = useSubmit(
    useCallback(
      async ({ code = "" }) => {
        await confirmed(t, ["code"], async () => unwrap(await api.DELETE(`/api/v1/auth/${session.kind}/totp`, { body: { code } })));
        session.change({ secondFactor: false });
        onClose();
      },
      [api, onClose, session, t],
    ),
  );
  return (
    <Dialog title={t.settings.factorTitle} open onClose={onClose}>
      <p>{t.settings.factorDisableHint}</p>
      <Form state={state} label={t.settings.factorDisable} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
        <CodeField autoFocus />
      </Form>
    </Dialog>
  );
}
