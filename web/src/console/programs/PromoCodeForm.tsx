import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { exponent, minorUnits } from "../../i18n/format";
import { Choice } from "../../kit/choices";
import { Checkbox, TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { PartnerField } from "../partners/PartnerField";
import { useTexts } from "../texts";
import { instantOf } from "../time";
import { type Program, useReload } from "./data";
import type { PromoCode } from "./PromoCodes";

/** The form of a new promo code for a partner, or of an existing one. */
export function PromoCodeForm({ program, code, onClose }: { program: Program; code: PromoCode | null; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const [participantId, setParticipantId] = useState("");
  const [kind, setKind] = useState<"percentage" | "fixed">("percentage");
  const state = useSubmit(
    useCallback(
      async (values) => {
        const maxRedemptions = values.maxRedemptions ? minorUnits(values.maxRedemptions, 0) : null;
        if (values.maxRedemptions && !maxRedemptions) throw new FieldFault("maxRedemptions", t.form.amountWrong);
        const limits = {
          maxRedemptions,
          // The code works until the end of the day.
          ...(values.expiresAt !== (code?.expiresAt ? f.isoDay(new Date(code.expiresAt)) : "") && { expiresAt: values.expiresAt ? instantOf(`${values.expiresAt}T23:59:59`, f.timeZone).toISOString() : null }),
          syncToProcessor: values.syncToProcessor !== undefined,
        };
        const path = { programId: program.id };
        if (code) {
          unwrap(await api.PATCH("/api/v1/programs/{programId}/promo-codes/{promoCodeId}", { params: { path: { ...path, promoCodeId: code.id } }, body: limits }));
        } else {
          if (!participantId) throw new FieldFault("participantId", t.form.required);
          const units = minorUnits(values.discountValue ?? "", kind === "fixed" ? exponent(program.currency) : 2);
          if (units === null) throw new FieldFault("discountValue", t.form.amountWrong);
          const body = { participantId, code: values.code ?? "", discountType: kind, discountValue: kind === "fixed" ? units : units / 100, ...limits };
          unwrap(await api.POST("/api/v1/programs/{programId}/promo-codes", { params: { path }, body }));
        }
        await reload();
        onClose();
      },
      [api, code, f, kind, onClose, participantId, program, reload, t],
    ),
  );
  return (
    <FormDialog title={code ? t.codes.one(code.code) : t.codes.create} state={state} label={t.save} onClose={onClose}>
      {code ? (
        <p>{t.codes.fixed}</p>
      ) : (
        <>
          <PartnerField programId={program.id} name="participantId" label={t.links.partner} hint={t.conversions.reassignSearch} onChoose={setParticipantId} />
          <TextField name="code" label={t.links.code} hint={t.codes.codeHint} maxLength={100} isRequired />
          <Choice
            label={t.codes.discount}
            options={[
              ["percentage", t.codes.percentage],
              ["fixed", t.codes.amount],
            ]}
            value={kind}
            onChange={(value) => setKind(value as typeof kind)}
          />
          <TextField name="discountValue" inputMode="decimal" label={kind === "fixed" ? t.rules.amountIn(program.currency) : t.rules.percent} isRequired />
        </>
      )}
      <TextField name="maxRedemptions" inputMode="numeric" label={`${t.codes.limit} (${t.form.optional})`} hint={t.codes.limitHint} defaultValue={code?.maxRedemptions ? String(code.maxRedemptions) : ""} maxLength={10} />
      <TextField name="expiresAt" type="date" label={`${t.codes.expires} (${t.form.optional})`} hint={t.codes.expiresHint} defaultValue={code?.expiresAt ? f.isoDay(new Date(code.expiresAt)) : ""} />
      <Checkbox name="syncToProcessor" defaultSelected={code?.syncToProcessor ?? false}>
        {t.codes.syncHint}
      </Checkbox>
    </FormDialog>
  );
}

export function DeleteCode({ program, code, onClose }: { program: Program; code: PromoCode; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/programs/{programId}/promo-codes/{promoCodeId}", { params: { path: { programId: program.id, promoCodeId: code.id } } }));
      await reload();
      onClose();
    }, [api, code.id, onClose, program.id, reload]),
  );
  return (
    <FormDialog title={t.codes.deleteTitle(code.code)} state={state} label={t.links.remove} kind="danger" onClose={onClose}>
      <p>{t.codes.deleteHint}</p>
    </FormDialog>
  );
}
