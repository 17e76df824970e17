import { useMutation } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import { useTexts } from "../../app/texts";
import { Button } from "../../kit/controls";
import { messageOf } from "../../kit/feedback";

/** The button that sends the mail again with which the partner verifies the e-mail address. */
export function ResendVerification() {
  const { api } = useApp();
  const { t } = useTexts();
  const resend = useMutation({ mutationFn: async () => unwrap(await api.POST("/api/v1/auth/partner/email/resend-verification")) });
  return (
    <>
      <span role="status">
        {resend.isSuccess && t.home.resent} {resend.isError && messageOf(resend.error, t)}
      </span>
      {!resend.isSuccess && (
        <Button small isPending={resend.isPending} onPress={() => resend.mutate()}>
          {t.home.resend}
        </Button>
      )}
    </>
  );
}
