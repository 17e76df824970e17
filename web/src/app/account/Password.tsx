import { useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { unwrap, useApp, useSession } from "../app";
import { useTexts } from "../texts";
import { CodeField } from "./CodeField";
import { confirmed } from "./secrets";
import { sessionsKey } from "./Sessions";

export function Password() {
  const { t } = useTexts();
  const queries = useQueryClient();
  const [state, setState] = useState<"changing" | "changed" | null>(null);
  const changed = useCallback(() => {
    setState("changed");
    void queries.invalidateQueries({ queryKey: sessionsKey });
  }, [queries]);
  return (
    <Card
      title={t.form.password}
      action={
        <Button small onPress={() => setState("changing")}>
          {t.settings.passwordChange}
        </Button>
      }
    >
      {state === "changed" ? <Done>{t.settings.passwordChanged}</Done> : <p className={kit.muted}>{t.settings.passwordHint}</p>}
      <Dialog title={t.settings.passwordChange} open={state === "changing"} onClose={() => setState(null)}>
        <PasswordForm onChanged={changed} onClose={() => setState(null)} />
      </Dialog>
    </Card>
  );
}

function PasswordForm({ onChanged, onClose }: { onChanged: () => void; onClose: () => void }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const secondFactor = login.status === "in" && login.user.secondFactor;
  const state = useSubmit(
    useCallback(
      async ({ currentPassword = "", newPassword = "", code }) => {
        const body = { currentPassword, newPassword, ...(code && { code }) };
        await confirmed(t, secondFactor ? ["currentPassword", "code"] : ["currentPassword"], async () =>
          unwrap(await api.POST(`/api/v1/auth/${session.kind}/password/change`, { body })),
        );
        onChanged();
      },
      [api, onChanged, secondFactor, t],
    ),
  );
  return (
    <Form state={state} label={t.settings.passwordChange} secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
      <p>{t.settings.passwordHint}</p>
      <TextField name="currentPassword" type="password" label={t.form.currentPassword} autoComplete="current-password" isRequired autoFocus />
      <TextField name="newPassword" type="password" label={t.form.newPassword} hint={t.form.passwordHint} autoComplete="new-password" isRequired />
      {secondFactor && <CodeField />}
    </Form>
  );
}
