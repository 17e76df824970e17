import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { useCommission } from "../commissions/CommissionView";
import { useReload } from "../commissions/decide";
import { usePrograms } from "../data";
import { PartnerField } from "../partners/PartnerField";
import { useTexts } from "../texts";
import type { Conversion } from "./ConversionDetail";

/** Credits a conversion to another partner. It says what this changes before it is done. */
export function ReassignDialog({ conversion, onDone, onClose }: { conversion: Conversion; onDone: () => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const programs = usePrograms().data ?? [];
  const [program, setProgram] = useState(conversion.program_id);
  const [participant, setParticipant] = useState("");
  const programId = program ?? programs[0]?.id ?? "";
  const { id } = conversion;
  const state = useSubmit(
    useCallback(
      async ({ reason = "" }) => {
        if (!participant) throw new FieldFault("participant", t.form.required);
        const body = { participant_id: participant, reason };
        unwrap(await api.POST("/api/v1/conversions/{conversionId}/reattribute", { params: { path: { conversionId: id } }, body }));
        await reload();
        onDone();
      },
      [api, id, onDone, participant, reload, t],
    ),
  );
  return (
    <FormDialog title={t.conversions.reassignTitle} state={state} label={t.conversions.reassign} kind="danger" onClose={onClose}>
      <Effect conversion={conversion} />
      {conversion.customer_ref && <p>{t.conversions.reassignCustomer}</p>}
      {programs.length > 1 && (
        <Select
          label={t.filter.program}
          options={programs.map(({ id, name }): [string, string] => [id, name])}
          value={programId}
          onChange={(key) => setProgram(String(key))}
        />
      )}
      <PartnerField key={programId} programId={programId} name="participant" label={t.conversions.reassignPartner} hint={t.conversions.reassignSearch} onChoose={setParticipant} />
      <TextField name="reason" label={t.conversions.reassignReason} lines maxLength={500} isRequired />
    </FormDialog>
  );
}

/** What happens to the money. */
function Effect({ conversion }: { conversion: Conversion }) {
  const { t, f } = useTexts();
  const { data: commission } = useCommission(conversion.commission?.id ?? "");
  const { reassignEffect } = t.conversions;
  if (!conversion.commission) return <p>{reassignEffect.none}</p>;
  if (!commission) return null;
  const amount = f.money(commission.amountCents, commission.currency);
  return <p>{(commission.status === "paid" ? reassignEffect.paid : reassignEffect.open)(commission.partnerName, amount)}</p>;
}
