import { useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";

import { TextField } from "../../kit/controls";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { fragment } from "../address";
import { useApp } from "../app";
import { post, postForm } from "../request";
import { useTexts } from "../texts";
import { Frame } from "./Frame";

// These are the pages to which the links in mails lead. The token of a link is in the fragment
// of the address, which browsers do not send to servers. Opening a page changes nothing: the
// token is used when the user presses the button.

/** The kind of account for which a mail was sent. Old links to members have no kind. */
export function kindOf(): "merchant" | "partner" {
  return fragment().get("kind") === "partner" ? "partner" : "merchant";
}

/** The start page of an account. The page of a link can belong to the other application. */
function homeOf(kind: ReturnType<typeof kindOf>): string {
  return kind === "partner" ? "/portal" : "/console";
}

/** Removes a token that was used from the address and the history of the browser. */
export function forgetToken(): void {
  history.replaceState(null, "", location.pathname);
}

/** A page whose link has no token. */
export function Incomplete({ title }: { title: string }) {
  const { t } = useTexts();
  return (
    <Frame title={title}>
      <Notice tone="bad">{t.account.incomplete}</Notice>
    </Frame>
  );
}

export function ForgotPassword() {
  const { session } = useApp();
  const { t } = useTexts();
  const [sentTo, setSentTo] = useState("");
  const state = useSubmit(
    useCallback(async ({ email = "" }) => {
      await post(`/api/v1/auth/${session.kind}/forgot-password`, { email });
      setSentTo(email);
    }, [session]),
  );
  return (
    <Frame title={t.account.forgotTitle} about={sentTo ? undefined : t.account.forgotHint}>
      {sentTo ? (
        <Notice tone="good">{t.account.forgotSent(sentTo)}</Notice>
      ) : (
        <Form state={state} label={t.account.forgotSend}>
          <TextField name="email" type="email" label={t.form.email} autoComplete="username" isRequired />
        </Form>
      )}
      <Link href="/login">{t.account.back}</Link>
    </Frame>
  );
}

export function ResetPassword() {
  const { t } = useTexts();
  const [{ token, kind }] = useState(() => ({ token: fragment().get("token"), kind: kindOf() }));
  const [done, setDone] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ password }) => {
        await post(`/api/v1/auth/${kind}/reset-password`, { token, password });
        forgetToken();
        setDone(true);
      },
      [token, kind],
    ),
  );
  if (!token) return <Incomplete title={t.account.resetTitle} />;
  if (done) {
    return (
      <Frame title={t.account.resetTitle}>
        <Notice tone="good">{t.account.resetDone}</Notice>
        <a href={`${homeOf(kind)}/login`}>{t.account.toLogin}</a>
      </Frame>
    );
  }
  return (
    <Frame title={t.account.resetTitle} about={t.account.resetHint}>
      <Form state={state} label={t.account.resetTitle}>
        <TextField name="password" type="password" label={t.form.newPassword} hint={t.form.passwordHint} autoComplete="new-password" isRequired />
      </Form>
    </Frame>
  );
}

export function VerifyEmail() {
  const { session } = useApp();
  const { t } = useTexts();
  const [{ token, kind }] = useState(() => ({ token: fragment().get("token"), kind: kindOf() }));
  const [done, setDone] = useState(false);
  const state = useSubmit(
    useCallback(async () => {
      await post("/api/v1/auth/email/verify", { token });
      forgetToken();
      if (session.kind === kind) session.change({ emailVerified: true });
      setDone(true);
    }, [kind, session, token]),
  );
  if (!token) return <Incomplete title={t.account.verifyTitle} />;
  return (
    <Frame title={t.account.verifyTitle} about={done ? undefined : t.account.verifyHint}>
      {done ? <Notice tone="good">{t.account.verifyDone}</Notice> : <Form state={state} label={t.account.verify} />}
      {done && <a href={homeOf(kind)}>{t.account.toHome}</a>}
    </Frame>
  );
}

export function Unsubscribe() {
  const { t } = useTexts();
  // Mail programs post to this address (RFC 8058), so its token is in the query.
  const [token] = useState(() => new URLSearchParams(location.search).get("token"));
  const [label, setLabel] = useState("");
  const state = useSubmit(
    useCallback(async () => {
      const { label } = await postForm<{ label: string }>(
        `/api/v1/notifications/unsubscribe?token=${encodeURIComponent(token ?? "")}`,
        new URLSearchParams({ "List-Unsubscribe": "One-Click" }),
      );
      forgetToken();
      setLabel(label);
    }, [token]),
  );
  if (!token) return <Incomplete title={t.account.unsubscribeTitle} />;
  return (
    <Frame title={t.account.unsubscribeTitle} about={label ? undefined : t.account.unsubscribeHint}>
      {label ? <Notice tone="good">{t.account.unsubscribeDone(label)}</Notice> : <Form state={state} label={t.account.unsubscribe} />}
    </Frame>
  );
}
