import { useCallback } from "react";

import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Form, useSubmit } from "../../kit/form";
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
    <Dialog title={title} open onClose={onClose}>
      <Form state={state} label={label} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
        <p>{hint}</p>
        <TextField name="reason" label={`${t.partners.reason} (${t.form.optional})`} lines maxLength={500} />
      </Form>
    </Dialog>
  );
}
