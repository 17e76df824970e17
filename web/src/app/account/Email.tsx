import { useCallback, useState } from "react";

import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { Card } from "../../kit/page";
import { unwrap, useApp, useSession } from "../app";
import { useTexts } from "../texts";
import { CodeField } from "./CodeField";
import { ResendVerification } from "./ResendVerification";
import { confirmed } from "./secrets";

/** The e-mail address of the account. A new one counts when the link in its mail is opened. */
export function Email() {
  const { session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const [changing, setChanging] = useState(false);
  const [sentTo, setSentTo] = useState("");
  if (login.status !== "in") return null;
  const { email, emailVerified, secondFactor } = login.user;
  return (
    <Card
      title={t.settings.emailTitle}
      action={
        <Button small onPress={() => setChanging(true)}>
          {t.settings.emailChange}
        </Button>
      }
    >
      <p>
        {email} <Badge tone={emailVerified ? "good" : "warn"}>{emailVerified ? t.settings.verified : t.settings.notVerified}</Badge>
      </p>
      {!emailVerified && (
        <Notice tone="warn" action={<ResendVerification />}>
          {t.account.unverified}
        </Notice>
      )}
      {sentTo && <Notice tone="good">{t.settings.emailSent(sentTo)}</Notice>}
      <Dialog title={t.settings.emailChange} open={changing} onClose={() => setChanging(false)}>
        <EmailForm
          secondFactor={secondFactor}
          onSent={(email) => {
            setSentTo(email);
            setChanging(false);
          }}
          onClose={() => setChanging(false)}
        />
      </Dialog>
    </Card>
  );
}

function EmailForm({ secondFactor, onSent, onClose }: { secondFactor: boolean; onSent: (email: string) => void; onClose: () => void }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const state = useSubmit(
    useCallback(
      async ({ newEmail = "", password = "", code }) => {
        const body = { newEmail, password, ...(code && { code }) };
        await confirmed(t, secondFactor ? ["password", "code"] : ["password"], async () =>
          unwrap(await api.POST(`/api/v1/auth/${session.kind}/email/change`, { body })),
        );
        onSent(newEmail);
      },
      [api, onSent, secondFactor, session, t],
    ),
  );
  return (
    <Form state={state} label={t.settings.emailChange} secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
      <TextField name="newEmail" type="email" label={t.settings.newEmail} autoComplete="email" isRequired />
      <TextField name="password" type="password" label={t.form.currentPassword} autoComplete="current-password" isRequired />
      {secondFactor && <CodeField />}
    </Form>
  );
}
