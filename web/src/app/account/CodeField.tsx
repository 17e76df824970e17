import { TextField } from "../../kit/controls";
import { useTexts } from "../texts";

/** The field for a code of the authenticator app, or a recovery code. */
export function CodeField({ label, autoFocus }: { label?: string; autoFocus?: boolean }) {
  const { t } = useTexts();
  return <TextField name="code" label={label ?? t.form.code} hint={t.form.codeHint} autoComplete="one-time-code" isRequired autoFocus={autoFocus} />;
}
