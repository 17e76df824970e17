import { useCallback } from "react";

import { Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { useTexts } from "../texts";
import { type RejectionCode, rejectionCodes } from "./decide";

/** Asks for the reason of a rejection. */
export function RejectDialog({
  title,
  onReject,
  onClose,
}: {
  title: string;
  onReject: (code: RejectionCode, reason: string) => Promise<void>;
  onClose: () => void;
}) {
  const { t } = useTexts();
  const state = useSubmit(useCallback(({ code, reason = "" }) => onReject((code || "other") as RejectionCode, reason), [onReject]));
  return (
    <FormDialog title={title} state={state} label={t.commissions.reject} kind="danger" onClose={onClose}>
      <p>{t.commissions.rejectHint}</p>
      <Select
        name="code"
        label={t.commissions.code}
        options={rejectionCodes.map((code): [string, string] => [code, t.commissions.codes[code]])}
        defaultValue="other"
      />
      <TextField name="reason" label={`${t.commissions.text} (${t.form.optional})`} hint={t.commissions.textHint} lines maxLength={500} />
    </FormDialog>
  );
}
