import { useCallback } from "react";

import { TributaryError, unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Form, useSubmit } from "../../kit/form";
import type { PartnerLink, Program } from "../data";
import { useTexts } from "../texts";

/** The form of a new link, or of an existing one. */
export function LinkForm({
  program,
  link,
  onDone,
  onClose,
}: {
  program: Program;
  link: PartnerLink | null;
  onDone: (saved: PartnerLink) => void;
  onClose: () => void;
}) {
  const { api } = useApp();
  const { t } = useTexts();
  const state = useSubmit(
    useCallback(
      async (values) => {
        const { destinationUrl = "", subId, code, source, medium, campaign } = values;
        const utm = { source: source || null, medium: medium || null, campaign: campaign || null };
        if (link) {
          const body = { destinationUrl, subId: subId || null, utm };
          onDone(unwrap(await api.PATCH("/api/v1/partner/links/{linkId}", { params: { path: { linkId: link.id } }, body })));
        } else {
          const body = { programId: program.id, destinationUrl, ...(code && { code }), ...(subId && { subId }), utm };
          onDone(unwrap(await api.POST("/api/v1/partner/links", { body })));
        }
      },
      [api, link, program.id, onDone],
    ),
  );
  const hosts = state.error instanceof TributaryError ? state.error.context["allowedHosts"] : undefined;
  return (
    <Dialog title={link ? t.links.edit : t.links.create} open onClose={onClose}>
      <Form state={state} label={t.save} secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
        <TextField
          name="destinationUrl"
          type="url"
          label={t.links.destination}
          hint={hosts ? t.links.hosts(String(hosts)) : undefined}
          defaultValue={link?.destinationUrl ?? program.landingUrl ?? program.websiteUrl ?? ""}
          isRequired
        />
        <TextField name="subId" label={`${t.links.subId} (${t.form.optional})`} hint={t.links.subIdHint} defaultValue={link?.subId ?? ""} />
        {!link && <TextField name="code" label={`${t.links.code} (${t.form.optional})`} hint={t.links.codeHint} />}
        <details>
          <summary>{t.links.tags}</summary>
          <TextField name="source" label={t.links.tagSource} defaultValue={link?.utm?.source ?? ""} />
          <TextField name="medium" label={t.links.tagMedium} defaultValue={link?.utm?.medium ?? ""} />
          <TextField name="campaign" label={t.links.tagCampaign} defaultValue={link?.utm?.campaign ?? ""} />
        </details>
      </Form>
    </Dialog>
  );
}

/** Asks before a link is deleted. */
export function DeleteLink({ link, onDone, onClose }: { link: PartnerLink; onDone: () => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/partner/links/{linkId}", { params: { path: { linkId: link.id } } }));
      onDone();
    }, [api, link.id, onDone]),
  );
  return (
    <Dialog title={t.links.removeTitle} open onClose={onClose}>
      <p>{t.links.removeHint(link.code)}</p>
      <Form state={state} label={t.links.remove} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>} />
    </Dialog>
  );
}

