import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { decimal, exponent, minorUnits } from "../../i18n/format";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { tagsOf, useReload } from "./data";
import type { Props } from "./PartnerDetail";

/** The button that changes what the merchant has set for a partner. */
export function EditPartner({ participant, program, groups }: Props & { groups: Schemas["Group"][] }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const can = useCan();
  const [open, setOpen] = useState(false);
  const { id, commissionOverride, groupId, tags, note, referralCode, externalId } = participant;
  const digits = exponent(program.currency);
  const [kind, setKind] = useState(commissionOverride === null ? "none" : commissionOverride.percentage === null ? "flat" : "percentage");
  const state = useSubmit(
    useCallback(
      async (values) => {
        const rate = values.rate ?? "";
        const cents = minorUnits(rate, kind === "flat" ? digits : 2);
        if (kind !== "none" && cents === null) throw new FieldFault("rate", t.form.amountWrong);
        const override = kind === "none" || cents === null ? null : kind === "flat" ? { flatAmountCents: cents } : { percentage: cents / 100 };
        const body = {
          referralCode: values.referralCode ?? "",
          ...(values.groupId !== undefined && { groupId: values.groupId || null }), // absent until the groups are loaded
          tags: tagsOf(values.tags),
          note: values.note || null,
          externalId: values.externalId || null,
          commissionOverride: override,
        };
        const params = { path: { programId: program.id, participantId: id } };
        unwrap(await api.PATCH("/api/v1/programs/{programId}/partners/{participantId}", { params, body }));
        await reload();
        setOpen(false);
      },
      [api, digits, id, kind, program.id, reload, t],
    ),
  );
  if (!can("UpdateParticipant") || participant.erasedAt) return null;
  const rate = commissionOverride?.percentage ?? (commissionOverride?.flatAmountCents ? decimal(commissionOverride.flatAmountCents, digits) : "");
  return (
    <>
      <Button small onPress={() => setOpen(true)}>
        {t.partners.edit}
      </Button>
      <Dialog title={participant.partnerName} open={open} onClose={() => setOpen(false)}>
        <Form state={state} label={t.save} secondary={<Button onPress={() => setOpen(false)}>{t.cancel}</Button>}>
          <Select
            label={t.partners.rate}
            hint={t.partners.rateHint}
            options={[
              ["none", t.partners.programRate],
              ["percentage", t.partners.percentage],
              ["flat", t.partners.flat(program.currency)],
            ]}
            value={kind}
            onChange={(key) => setKind(String(key))}
          />
          {kind !== "none" && <TextField name="rate" inputMode="decimal" label={kind === "flat" ? t.partners.flat(program.currency) : t.partners.percentage} defaultValue={String(rate)} isRequired />}
          {groups.length > 0 && (
            <Select
              name="groupId"
              label={t.partners.group}
              options={[["", t.partners.noGroup], ...groups.map(({ id, name }): [string, string] => [id, name])]}
              defaultValue={groupId ?? ""}
            />
          )}
          <TextField name="referralCode" label={t.partners.code} hint={t.partners.codeHint} defaultValue={referralCode} maxLength={50} isRequired />
          <TextField name="tags" label={t.partners.tags} hint={t.partners.tagsHint} defaultValue={tags.join(", ")} />
          <TextField name="externalId" label={`${t.partners.externalId} (${t.form.optional})`} defaultValue={externalId ?? ""} maxLength={120} />
          <TextField name="note" label={`${t.partners.note} (${t.form.optional})`} hint={t.partners.noteHint} lines defaultValue={note ?? ""} maxLength={2000} />
        </Form>
      </Dialog>
    </>
  );
}
