import { CodeField } from "../../app/account/CodeField";
import { useApp, useSession } from "../../app/app";
import { TextField } from "../../kit/controls";
import { useTexts } from "../texts";

/** The field in which the partner confirms a change: the password, or a code if the account has a second factor. */
export function Proof() {
  const { session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  return login.status === "in" && login.user.secondFactor ? (
    <CodeField label={`${t.payouts.confirm}: ${t.form.code}`} />
  ) : (
    <TextField name="password" type="password" label={`${t.payouts.confirm}: ${t.form.password}`} autoComplete="current-password" isRequired />
  );
}
