import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { PartnerField } from "../partners/PartnerField";
import { useTexts } from "../texts";
import { type Program, useReload } from "./data";
import type { ProgramLink } from "./Links";

/** The form of a new link for a partner, or of an existing one. */
export function LinkForm({ program, link, onClose }: { program: Program; link: ProgramLink | null; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const [participantId, setParticipantId] = useState("");
  const state = useSubmit(
    useCallback(
      async ({ destinationUrl = "", code, subId, source, medium, campaign }) => {
        const utm = { source: source || null, medium: medium || null, campaign: campaign || null };
        const path = { programId: program.id };
        if (link) {
          const body = { destinationUrl: destinationUrl || null, subId: subId || null, utm };
          unwrap(await api.PATCH("/api/v1/programs/{programId}/links/{linkId}", { params: { path: { ...path, linkId: link.id } }, body }));
        } else {
          if (!participantId) throw new FieldFault("participantId", t.form.required);
          const body = { participantId, destinationUrl, ...(code && { code }), ...(subId && { subId }), utm };
          unwrap(await api.POST("/api/v1/programs/{programId}/links", { params: { path }, body }));
        }
        await reload();
        onClose();
      },
      [api, link, onClose, participantId, program.id, reload, t],
    ),
  );
  return (
    <FormDialog title={link ? t.links.one(link.code) : t.links.create} state={state} label={t.save} onClose={onClose}>
      {!link && <PartnerField programId={program.id} name="participantId" label={t.links.partner} hint={t.conversions.reassignSearch} onChoose={setParticipantId} />}
      <TextField
        name="destinationUrl"
        type="url"
        label={t.links.destination}
        hint={t.links.destinationHint}
        defaultValue={link?.destinationUrl ?? program.landingUrl ?? program.websiteUrl ?? ""}
        maxLength={2048}
        isRequired
      />
      {!link && <TextField name="code" label={`${t.links.code} (${t.form.optional})`} hint={t.links.codeHint} maxLength={50} />}
      <TextField name="subId" label={`${t.links.subId} (${t.form.optional})`} hint={t.links.subIdHint} defaultValue={link?.subId ?? ""} maxLength={255} />
      <details>
        <summary>{t.links.tags}</summary>
        <TextField name="source" label={t.links.tagSource} defaultValue={link?.utm?.source ?? ""} maxLength={255} />
        <TextField name="medium" label={t.links.tagMedium} defaultValue={link?.utm?.medium ?? ""} maxLength={255} />
        <TextField name="campaign" label={t.links.tagCampaign} defaultValue={link?.utm?.campaign ?? ""} maxLength={255} />
      </details>
    </FormDialog>
  );
}

export function DeleteLink({ program, link, onClose }: { program: Program; link: ProgramLink; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/programs/{programId}/links/{linkId}", { params: { path: { programId: program.id, linkId: link.id } } }));
      await reload();
      onClose();
    }, [api, link.id, onClose, program.id, reload]),
  );
  return (
    <FormDialog title={t.links.deleteTitle(link.code)} state={state} label={t.links.remove} kind="danger" onClose={onClose}>
      <p>{t.links.deleteHint(link.partnerName ?? "")}</p>
    </FormDialog>
  );
}
