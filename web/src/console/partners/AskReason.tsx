import { useCallback } from "react";

import { TextField } from "../../kit/controls";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { useTexts } from "../texts";

/** Asks for the reason of a rejection or suspension, and says what it does. */
export function AskReason({
  title,
  hint,
  label,
  onDecide,
  onClose,
}: {
  title: string;
  hint: string;
  /** The text of the button. */
  label: string;
  onDecide: (reason: string) => Promise<void>;
  onClose: () => void;
}) {
  const { t } = useTexts();
  const state = useSubmit(useCallback(({ reason = "" }) => onDecide(reason), [onDecide]));
  return (
    <FormDialog title={title} state={state} label={label} kind="danger" onClose={onClose}>
      <p>{hint}</p>
      <TextField name="reason" label={`${t.partners.reason} (${t.form.optional})`} lines maxLength={500} />
    </FormDialog>
  );
}
