import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { CopyText } from "../../kit/sharing";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { useGroups, useReload } from "./data";
import { InviteMany } from "./InviteMany";
import type { Program } from "./Partners";

/** The buttons that invite a partner or several by mail. */
export function AddButtons({ programs, programId }: { programs: Program[]; programId: string }) {
  const { t } = useTexts();
  const can = useCan();
  const [open, setOpen] = useState<"one" | "many" | null>(null);
  const close = () => setOpen(null);
  const invitable = programs.filter(({ status }) => status !== "archived");
  const program = invitable.find(({ id }) => id === programId) ?? invitable[0];
  if (!program) return null;
  return (
    <>
      {can("BulkInviteParticipants") && <Button onPress={() => setOpen("many")}>{t.partners.inviteMany}</Button>}
      <Button kind="primary" onPress={() => setOpen("one")}>
        {t.partners.invite}
      </Button>
      {open === "one" && <Invite programs={invitable} initial={program.id} onClose={close} />}
      {open === "many" && <InviteMany programs={invitable} initial={program.id} onClose={close} />}
    </>
  );
}

/** The programme of an invitation, and the group in it. */
export function ProgramAndGroup({ programs, programId, onChange }: { programs: Program[]; programId: string; onChange: (programId: string) => void }) {
  const { t } = useTexts();
  const groups = useGroups(programId).data ?? [];
  return (
    <>
      {programs.length > 1 && (
        <Select label={t.filter.program} options={programs.map(({ id, name }): [string, string] => [id, name])} value={programId} onChange={(key) => onChange(String(key))} />
      )}
      {groups.length > 0 && (
        <Select
          key={programId}
          name="groupId"
          label={t.partners.group}
          options={[["", t.partners.noGroup], ...groups.map(({ id, name }): [string, string] => [id, name])]}
          defaultValue=""
        />
      )}
    </>
  );
}

/** Invites a partner. The link of the invitation can also be copied. */
function Invite({ programs, initial, onClose }: { programs: Program[]; initial: string; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const [programId, setProgram] = useState(initial);
  const [created, setCreated] = useState<{ email: string; token: string } | null>(null);
  const state = useSubmit(
    useCallback(
      async ({ email = "", name, groupId, message }) => {
        const body = { email, ...(name && { name }), ...(groupId && { groupId }), ...(message && { message }) };
        const invite = unwrap(await api.POST("/api/v1/programs/{programId}/partners/invite", { params: { path: { programId } }, body }));
        setCreated({ email, token: invite.token });
        await reload();
      },
      [api, programId, reload],
    ),
  );
  return (
    <Dialog title={t.partners.inviteTitle(programs.find(({ id }) => id === programId)?.name ?? "")} open onClose={onClose}>
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
          <ProgramAndGroup programs={programs} programId={programId} onChange={setProgram} />
          <TextField name="message" label={`${t.partners.message} (${t.form.optional})`} hint={t.partners.messageHint} lines maxLength={1000} />
        </Form>
      )}
    </Dialog>
  );
}
