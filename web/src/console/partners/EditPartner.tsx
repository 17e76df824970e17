import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { decimal, exponent, minorUnits } from "../../i18n/format";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { tagsOf, useReload } from "./data";
import type { Props } from "./PartnerDetail";

type EditProps = Props & { groups: Schemas["Group"][] };

/** The button that changes what the merchant has set for a partner. */
export function EditPartner(props: EditProps) {
  const { t } = useTexts();
  const can = useCan();
  const [open, setOpen] = useState(false);
  if (!can("UpdateParticipant") || props.participant.erasedAt) return null;
  return (
    <>
      <Button small onPress={() => setOpen(true)}>
        {t.partners.edit}
      </Button>
      {open && <Edit {...props} onClose={() => setOpen(false)} />}
    </>
  );
}

function Edit({ participant, program, groups, onClose }: EditProps & { onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const { id, commissionOverride, groupId, tags, note, referralCode, externalId } = participant;
  const digits = exponent(program.currency);
  const own = commissionOverride === null ? "none" : commissionOverride.percentage === null ? "flat" : "percentage";
  const [kind, setKind] = useState(own);
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
        onClose();
      },
      [api, digits, id, kind, onClose, program.id, reload, t],
    ),
  );
  const rate = kind === own ? (commissionOverride?.percentage ?? decimal(commissionOverride?.flatAmountCents ?? 0, digits)) : "";
  return (
    <FormDialog title={participant.partnerName} state={state} label={t.save} onClose={onClose}>
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
      {kind !== "none" && (
        <TextField
          key={kind}
          name="rate"
          inputMode="decimal"
          label={kind === "flat" ? t.partners.flat(program.currency) : t.partners.percentage}
          defaultValue={String(rate)}
          isRequired
        />
      )}
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
    </FormDialog>
  );
}
