import { useState } from "react";

import { Frame } from "../app/account/Frame";
import { RegisterForm } from "../app/account/Login";
import { fragment } from "../app/address";
import { useInstance } from "../app/data";
import { LinkButton, TextField } from "../kit/controls";
import { Skeleton } from "../kit/feedback";
import { useTexts } from "./texts";

/** Creates the first workspace of an installation with the code that the core has logged. */
export default function SetUpInstallation() {
  const { t } = useTexts();
  const instance = useInstance();
  const [code] = useState(() => fragment().get("code") ?? "");
  if (!instance) {
    return (
      <Frame title={t.firstWorkspace.title}>
        <Skeleton />
      </Frame>
    );
  }
  if (!instance.setupRequired) {
    return (
      <Frame title={t.firstWorkspace.done} about={t.firstWorkspace.doneHint}>
        <LinkButton kind="primary" href="/login">
          {t.account.toLogin}
        </LinkButton>
      </Frame>
    );
  }
  return (
    <Frame title={t.firstWorkspace.title} about={t.firstWorkspace.about}>
      <RegisterForm>
        <TextField name="setupCode" label={t.firstWorkspace.code} hint={t.firstWorkspace.codeHint} defaultValue={code} autoComplete="off" isRequired />
      </RegisterForm>
    </Frame>
  );
}
