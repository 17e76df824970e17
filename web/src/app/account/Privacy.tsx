import { useCallback, useState } from "react";
import { useLocation } from "wouter";

import { unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Form, useSubmit } from "../../kit/form";
import { Card } from "../../kit/page";
import { useTexts } from "../texts";
import { ExportCard } from "./ExportCard";

/** The export of the user's data, and the erasure of the account. */
export function Privacy({ canErase = true }: { canErase?: boolean }) {
  return (
    <>
      <Export />
      {canErase && <Erasure />}
    </>
  );
}

function Export() {
  const { api, session } = useApp();
  const { t } = useTexts();
  const account = session.kind === "partner" ? "partner" : "merchant/account";
  return <ExportCard hint={t.app.exportHint} label={t.app.exportStart} start={async () => unwrap(await api.POST(`/api/v1/${account}/export`))} />;
}

function Erasure() {
  const { t } = useTexts();
  const [open, setOpen] = useState(false);
  const close = () => setOpen(false);
  return (
    <Card title={t.settings.eraseTitle}>
      <p>{t.app.eraseHint}</p>
      <p>
        <Button kind="danger" onPress={() => setOpen(true)}>
          {t.settings.erase}
        </Button>
      </p>
      <Dialog title={t.settings.eraseTitle} open={open} onClose={close}>
        <EraseForm onClose={close} />
      </Dialog>
    </Card>
  );
}

function EraseForm({ onClose }: { onClose: () => void }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const login = session.snapshot();
  const [, navigate] = useLocation();
  const state = useSubmit(
    useCallback(
      async ({ confirmation }) => {
        unwrap(await api.POST(`/api/v1/${session.kind}/account/erase`, { body: { confirmation } }));
        session.forget();
        navigate("/login?erased=yes");
      },
      [api, navigate, session],
    ),
  );
  return (
    <Form state={state} label={t.settings.erase} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
      {login.status === "in" && <strong>{login.user.email}</strong>}
      <p>{t.app.eraseHint}</p>
      <TextField name="confirmation" label={t.settings.erasePhrase} autoComplete="off" isRequired />
    </Form>
  );
}
