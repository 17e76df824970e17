import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { CopyText } from "../../kit/sharing";
import { useTexts } from "../texts";
import { useGroups, useReload } from "./data";
import type { Program } from "./Partners";

/** The button that invites a partner by mail. The link of the invitation can also be copied. */
export function AddDialog({ program }: { program: Program }) {
  const { t } = useTexts();
  const [open, setOpen] = useState(false);
  return (
    <>
      <Button kind="primary" onPress={() => setOpen(true)}>
        {t.partners.invite}
      </Button>
      {open && <Invite program={program} onClose={() => setOpen(false)} />}
    </>
  );
}

function Invite({ program, onClose }: { program: Program; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const groups = useGroups(program.id).data ?? [];
  const [created, setCreated] = useState<{ email: string; token: string } | null>(null);
  const state = useSubmit(
    useCallback(
      async ({ email = "", name, groupId, message }) => {
        const body = { email, ...(name && { name }), ...(groupId && { groupId }), ...(message && { message }) };
        const invite = unwrap(await api.POST("/api/v1/programs/{programId}/partners/invite", { params: { path: { programId: program.id } }, body }));
        setCreated({ email, token: invite.token });
        await reload();
      },
      [api, program.id, reload],
    ),
  );
  return (
    <Dialog title={t.partners.inviteTitle(program.name)} open onClose={onClose}>
      {created ? (
        <>
          <Notice tone="good">{t.partners.inviteSent(created.email)}</Notice>
          <CopyText label={t.partners.inviteLink} text={`${location.origin}/accept-invite#kind=partner&token=${encodeURIComponent(created.token)}`} />
          <Button onPress={onClose}>{t.close}</Button>
        </>
      ) : (
        <Form state={state} label={t.partners.invite} secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
          <TextField name="email" type="email" label={t.form.email} autoComplete="off" isRequired />
          <TextField name="name" label={`${t.form.name} (${t.form.optional})`} autoComplete="off" maxLength={100} />
          {groups.length > 0 && (
            <Select
              name="groupId"
              label={t.partners.group}
              options={[["", t.partners.noGroup], ...groups.map(({ id, name }): [string, string] => [id, name])]}
              defaultValue=""
            />
          )}
          <TextField name="message" label={`${t.partners.message} (${t.form.optional})`} hint={t.partners.messageHint} lines maxLength={1000} />
        </Form>
      )}
    </Dialog>
  );
}
