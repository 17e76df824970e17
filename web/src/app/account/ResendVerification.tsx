import { useMutation } from "@tanstack/react-query";

import { Button } from "../../kit/controls";
import { messageOf } from "../../kit/feedback";
import { unwrap, useApp } from "../app";
import { useTexts } from "../texts";

/** The button that sends the mail again with which the user verifies the e-mail address. */
export function ResendVerification() {
  const { api, session } = useApp();
  const { t } = useTexts();
  const resend = useMutation({ mutationFn: async () => unwrap(await api.POST(`/api/v1/auth/${session.kind}/email/resend-verification`)) });
  return (
    <>
      <span role="status">
        {resend.isSuccess && t.account.resent} {resend.isError && messageOf(resend.error, t)}
      </span>
      {!resend.isSuccess && (
        <Button small isPending={resend.isPending} onPress={() => resend.mutate()}>
          {t.account.resend}
        </Button>
      )}
    </>
  );
}
