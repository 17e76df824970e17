import { type ReactNode, useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";
import { Redirect } from "wouter";

import { Button, Checkbox, TextField } from "../../kit/controls";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { useParameter } from "../address";
import { TributaryError, useApp } from "../app";
import { useInstance } from "../data";
import { useTexts } from "../texts";
import { CodeField } from "./CodeField";
import { Frame } from "./Frame";
import css from "./frame.module.css";

/**
 * The steps of a login: address and password, and a code if the account has a second factor.
 * The session is open when the last step is done.
 */
export function LoginForm() {
  const { session } = useApp();
  const { t } = useTexts();
  const [challenge, setChallenge] = useState("");
  const [keep, setKeep] = useState(true);
  const login = useSubmit(
    useCallback(
      async ({ email, password }) => {
        try {
          await session.open("login", { email, password }, keep);
        } catch (error) {
          if (!(error instanceof TributaryError && error.code === "SECOND_FACTOR_REQUIRED")) throw error;
          setChallenge(error.challenge ?? "");
        }
      },
      [session, keep],
    ),
  );
  const setLoginError = login.setError;
  const confirm = useSubmit(
    useCallback(
      async ({ code }) => {
        try {
          await session.open("login/second-factor", { challenge, code }, keep);
        } catch (error) {
          if (!(error instanceof TributaryError && error.code === "CHALLENGE_INVALID")) throw error;
          setLoginError(error);
          setChallenge("");
        }
      },
      [session, challenge, keep, setLoginError],
    ),
  );
  if (challenge) {
    return (
      <Form
        key="code"
        state={confirm}
        label={t.account.continue}
        secondary={
          <Button kind="plain" onPress={() => setChallenge("")}>
            {t.account.back}
          </Button>
        }
      >
        <Notice>{t.account.secondFactorHint}</Notice>
        <CodeField autoFocus />
      </Form>
    );
  }
  return (
    <Form key="password" state={login} label={t.account.login}>
      <TextField name="email" type="email" label={t.form.email} autoComplete="username" isRequired />
      <TextField name="password" type="password" label={t.form.password} autoComplete="current-password" isRequired />
      <Checkbox isSelected={keep} onChange={setKeep}>
        {t.account.keep}
      </Checkbox>
    </Form>
  );
}

/**
 * The form that creates an account. extra is sent with it, for example the token of an
 * invitation. children are further fields.
 */
export function RegisterForm({ extra = {}, children }: { extra?: Record<string, string>; children?: ReactNode }) {
  const { session } = useApp();
  const { t } = useTexts();
  const register = useSubmit(
    useCallback((values) => session.open("register", { ...values, ...extra }, true), [session, extra]),
  );
  return (
    <Form state={register} label={t.account.register}>
      {session.kind === "merchant" && <TextField name="workspaceName" label={t.form.workspace} autoComplete="organization" maxLength={100} isRequired />}
      <TextField name="name" label={t.form.name} autoComplete="name" isRequired />
      <TextField name="email" type="email" label={t.form.email} autoComplete="username" isRequired />
      <TextField name="password" type="password" label={t.form.password} hint={t.form.passwordHint} autoComplete="new-password" isRequired />
      {children}
    </Form>
  );
}

export function Login() {
  const { session } = useApp();
  const { t } = useTexts();
  const state = session.snapshot();
  const instance = useInstance();
  const [erased] = useParameter("erased");
  if (session.kind === "merchant" && instance?.setupRequired) return <Redirect to="/setup" />;
  return (
    <Frame title={t.app.login}>
      {erased && <Notice tone="good">{t.settings.erased}</Notice>}
      {state.status === "out" && state.ended && <Notice tone="warn">{t.account.ended}</Notice>}
      <LoginForm />
      <Link href="/forgot-password">{t.account.forgot}</Link>
      {(session.kind === "partner" ? instance?.partnerRegistration : instance?.merchantRegistration) === "open" && (
        <p className={css.switch}>
          {t.account.noAccount} <Link href="/register">{t.account.register}</Link>
        </p>
      )}
      <p className={css.switch}>
        {t.app.other} <a href={session.kind === "partner" ? "/console" : "/portal"}>{t.app.toOther}</a>
      </p>
    </Frame>
  );
}

export function Register() {
  const { t } = useTexts();
  return (
    <Frame title={t.app.register}>
      <RegisterForm />
      <p className={css.switch}>
        {t.account.haveAccount} <Link href="/login">{t.account.login}</Link>
      </p>
    </Frame>
  );
}
