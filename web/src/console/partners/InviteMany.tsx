import { useCallback, useState } from "react";

import { TributaryError, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Done } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import { Table } from "../../kit/page";
import { rowsOf } from "../bulk";
import { lines } from "../programs/data";
import { type Texts, useTexts } from "../texts";
import { ProgramAndGroup } from "./AddDialog";
import { useReload } from "./data";
import type { Program } from "./Partners";

/** The most invitations of a request. */
const most = 100;

/** Invites several partners, and shows the result of each address. */
export function InviteMany({ programs, initial, onClose }: { programs: Program[]; initial: string; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const [programId, setProgram] = useState(initial);
  const [results, setResults] = useState<Schemas["BulkInviteResult"][] | null>(null);
  const state = useSubmit(
    useCallback(
      async ({ emails, groupId, message }) => {
        const addresses = [...new Map(lines(emails?.replace(/[,;]/g, "\n")).map((address) => [address.toLowerCase(), address])).values()];
        if (addresses.length === 0 || addresses.length > most) throw new FieldFault("emails", t.partners.emailsWrong(f.number(most)));
        const invites = addresses.map((email) => ({ email, ...(groupId && { groupId }), ...(message && { message }) }));
        const result = await api.POST("/api/v1/programs/{programId}/partners/bulk-invite", { params: { path: { programId } }, body: { invites } });
        if (result.response.status === 400) throw faultOf(new TributaryError(result.response, result.error), addresses, t);
        setResults(rowsOf(result));
        await reload();
      },
      [api, f, programId, reload, t],
    ),
  );
  const invited = results?.filter(({ success }) => success).length ?? 0;
  return (
    <Dialog title={t.partners.inviteMany} open onClose={onClose}>
      {results ? (
        <>
          <Done tone={invited === results.length ? "good" : "warn"}>{t.partners.invitedOf(f.number(invited), f.number(results.length))}</Done>
          <Table
            caption={t.partners.inviteMany}
            rows={results.map((result) => ({ ...result, id: String(result.index) }))}
            columns={[
              { name: t.form.email, cell: (row) => row.email, lead: true },
              { name: t.partners.result, cell: (row) => (row.success ? <Badge tone="good">{t.partners.invited}</Badge> : row.message) },
            ]}
          />
          <Button onPress={onClose}>{t.close}</Button>
        </>
      ) : (
        <Form state={state} label={t.partners.inviteMany} secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
          <TextField name="emails" label={t.partners.emails} hint={t.partners.emailsHint(f.number(most))} lines isRequired />
          <ProgramAndGroup programs={programs} programId={programId} onChange={setProgram} />
          <TextField name="message" label={`${t.partners.message} (${t.form.optional})`} hint={t.partners.messageHint} lines maxLength={1000} />
        </Form>
      )}
    </Dialog>
  );
}

/** The error of a refused request, at the field that has caused it. The service names invitations by their positions. */
function faultOf(error: TributaryError, addresses: string[], t: Texts): Error {
  const wrong = error.details.map(({ field }) => /^invites\[(\d+)\]\.email$/.exec(field)).flatMap((match) => (match ? addresses[Number(match[1])] : undefined) ?? []);
  if (wrong.length > 0) return new FieldFault("emails", t.partners.notAddresses(wrong.join(", ")));
  const [first] = error.details;
  return first?.field.endsWith(".message") ? new FieldFault("message", first.message.replace(/^\S+ (.)/, (_, letter: string) => letter.toUpperCase())) : error;
}
