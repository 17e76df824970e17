import { FieldFault } from "../../kit/form";
import { Refusal, TributaryError } from "../app";
import type { Texts } from "../texts";

/**
 * Makes a call of the API that a password, a code, or both must confirm. If they are wrong, it
 * throws the fault of the field. The general text of the error is about a login.
 */
export async function confirmed<T>(t: Texts, fields: ("password" | "currentPassword" | "code")[], call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    if (!(error instanceof TributaryError) || error.code !== "INVALID_CREDENTIALS") throw error;
    const [field, other] = fields;
    if (!field || other) throw new Refusal(t.settings.secretsWrong);
    throw new FieldFault(field, field === "code" ? t.settings.codeWrong : t.settings.passwordWrong);
  }
}
