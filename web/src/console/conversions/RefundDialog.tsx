import { useCallback } from "react";

import { unwrap, useApp } from "../../app/app";
import { exponent, minorUnits } from "../../i18n/format";
import { TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { useReload } from "../commissions/decide";
import { useTexts } from "../texts";
import type { Conversion } from "./ConversionDetail";

/** Reports a refund that the merchant has made. */
export function RefundDialog({ conversion, onDone, onClose }: { conversion: Conversion; onDone: () => void; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const { external_transaction_id, amount_cents, refunded_amount_cents, currency } = conversion;
  const state = useSubmit(
    useCallback(
      async ({ amount_cents: amount = "", external_refund_id = "", reason = "" }) => {
        const cents = amount === "" ? null : minorUnits(amount, exponent(currency ?? ""));
        if (amount !== "" && cents === null) throw new FieldFault("amount_cents", t.form.amountWrong);
        const body = { external_transaction_id, external_refund_id, ...(cents !== null && { amount_cents: cents }), ...(reason && { reason }) };
        unwrap(await api.POST("/api/v1/conversions/refunds", { body }));
        await reload();
        onDone();
      },
      [api, currency, external_transaction_id, onDone, reload, t],
    ),
  );
  return (
    <FormDialog title={t.conversions.refundTitle} state={state} label={t.conversions.refund} kind="danger" onClose={onClose}>
      <p>{t.conversions.refundHint}</p>
      {currency && (
        <TextField
          name="amount_cents"
          inputMode="decimal"
          label={`${t.conversions.refundAmount(currency)} (${t.form.optional})`}
          hint={t.conversions.refundAmountHint(f.money(amount_cents - refunded_amount_cents, currency))}
        />
      )}
      <TextField name="external_refund_id" label={t.conversions.refundId} hint={t.conversions.refundIdHint} maxLength={255} isRequired />
      <TextField name="reason" label={`${t.conversions.refundReason} (${t.form.optional})`} lines maxLength={500} />
    </FormDialog>
  );
}
