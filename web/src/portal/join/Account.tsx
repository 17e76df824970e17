import { useEffect, useRef, useState } from "react";
import { Link } from "react-aria-components/Link";

import css from "../../app/account/frame.module.css";
import { LoginForm, RegisterForm } from "../../app/account/Login";
import { useApp } from "../../app/app";
import { Button } from "../../kit/controls";
import { useTexts } from "../texts";

/** The login, and the form that creates an account if the visitor may create one. */
export function Account({ invitation, canRegister = true, isNew: first = false }: { invitation?: string; canRegister?: boolean; isNew?: boolean }) {
  const { t } = useTexts();
  const [isNew, setNew] = useState(first);
  const registers = canRegister && isNew;
  return (
    <>
      {registers ? <RegisterForm extra={invitation ? { inviteToken: invitation } : {}} /> : <LoginForm />}
      {!registers && <Link href="/forgot-password">{t.account.forgot}</Link>}
      {canRegister && (
        <p className={css.switch}>
          {isNew ? t.account.haveAccount : t.account.noAccount}{" "}
          <Button kind="plain" small onPress={() => setNew(!isNew)}>
            {isNew ? t.account.login : t.account.register}
          </Button>
        </p>
      )}
    </>
  );
}

/** The account with which the partner goes on. It takes the focus if the form that had it is gone. */
export function LoggedInAs({ email }: { email: string }) {
  const { session } = useApp();
  const { t } = useTexts();
  const element = useRef<HTMLParagraphElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) element.current?.focus();
  }, []);
  return (
    <p ref={element} tabIndex={-1} className={css.account}>
      {t.join.loggedInAs(email)}
      <Button kind="plain" small onPress={() => void session.logout()}>
        {t.account.anotherAccount}
      </Button>
    </p>
  );
}
