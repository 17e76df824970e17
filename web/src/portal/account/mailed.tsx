import { useCallback, useState } from "react";
import { Link } from "react-aria-components";

import { fragment } from "../../app/address";
import { Refusal, TributaryError, unwrap, useApp, useSession } from "../../app/app";
import { post, postForm } from "../../app/request";
import { type Texts, useTexts } from "../../app/texts";
import { Button, Checkbox, LinkButton, TextField } from "../../kit/controls";
import { Form, useSubmit } from "../../kit/form";
import { Notice } from "../../kit/feedback";
import { LoginForm, RegisterForm } from "./Login";
import { Frame } from "./Frame";
import css from "./frame.module.css";

// These are the pages to which the links in mails lead. The token of a link is in the fragment
// of the address, which browsers do not send to servers. Opening a page changes nothing: the
// token is used when the user presses the button.

/** The kind of account for which a mail was sent. Old links to members have no kind. */
function kindOf(): "merchant" | "partner" {
  return fragment().get("kind") === "partner" ? "partner" : "merchant";
}

/** Removes a token that was used from the address and the history of the browser. */
function forgetToken(): void {
  history.replaceState(null, "", location.pathname);
}

/** Returns the error of an acceptance. An invitation that cannot be accepted any more is not found. */
function invitationError(error: unknown, t: Texts): unknown {
  const gone = error instanceof TributaryError && error.code === "NOT_FOUND";
  return gone ? new Refusal(t.errors.codes.INVITE_TOKEN_INVALID) : error;
}

function Incomplete({ title }: { title: string }) {
  const { t } = useTexts();
  return (
    <Frame title={title}>
      <Notice tone="bad">{t.account.incomplete}</Notice>
    </Frame>
  );
}

export function ForgotPassword() {
  const { t } = useTexts();
  const [sentTo, setSentTo] = useState("");
  const state = useSubmit(
    useCallback(async ({ email = "" }) => {
      await post("/api/v1/auth/partner/forgot-password", { email });
      setSentTo(email);
    }, []),
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
        {kind === "partner" && (
          <LinkButton kind="primary" href="/login">
            {t.account.toLogin}
          </LinkButton>
        )}
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
  const signedIn = useSession(session).status === "in";
  const [token] = useState(() => fragment().get("token"));
  const [done, setDone] = useState(false);
  const state = useSubmit(
    useCallback(async () => {
      await post("/api/v1/auth/email/verify", { token });
      forgetToken();
      session.change({ emailVerified: true });
      setDone(true);
    }, [session, token]),
  );
  if (!token) return <Incomplete title={t.account.verifyTitle} />;
  return (
    <Frame title={t.account.verifyTitle} about={done ? undefined : t.account.verifyHint}>
      {done ? <Notice tone="good">{t.account.verifyDone}</Notice> : <Form state={state} label={t.account.verify} />}
      {done && signedIn && (
        <LinkButton kind="primary" href="/">
          {t.account.toHome}
        </LinkButton>
      )}
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

export function AcceptInvite() {
  const { t } = useTexts();
  const [{ token, kind }] = useState(() => ({ token: fragment().get("token"), kind: kindOf() }));
  if (!token) return <Incomplete title={t.account.inviteTitle} />;
  return kind === "partner" ? <AcceptAsPartner token={token} /> : <AcceptAsMember token={token} />;
}

function AcceptAsMember({ token }: { token: string }) {
  const { t } = useTexts();
  const [joined, setJoined] = useState("");
  const state = useSubmit(
    useCallback(
      async ({ name, password }) => {
        const { user, workspace } = await post<{ user: { email: string }; workspace: { name: string } }>("/api/v1/auth/merchant/accept-invite", {
          token,
          name,
          password,
        }).catch((error: unknown) => {
          throw invitationError(error, t);
        });
        forgetToken();
        setJoined(t.account.inviteMemberDone(workspace.name, user.email));
      },
      [token, t],
    ),
  );
  return (
    <Frame title={t.account.inviteTitle} about={joined ? undefined : t.account.inviteMember}>
      {joined ? (
        <Notice tone="good">{joined}</Notice>
      ) : (
        <Form state={state} label={t.account.inviteAccept}>
          <TextField name="name" label={t.form.name} autoComplete="name" isRequired />
          <TextField name="password" type="password" label={t.form.password} hint={t.form.passwordHint} autoComplete="new-password" isRequired />
        </Form>
      )}
    </Frame>
  );
}

function AcceptAsPartner({ token }: { token: string }) {
  const { session, api } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const [isNew, setNew] = useState(false);
  const [terms, setTerms] = useState(false);
  const [joined, setJoined] = useState<"live" | "test" | null>(null);
  const state = useSubmit(
    useCallback(async () => {
      const accept = async (mode: "live" | "test") => {
        unwrap(await api.POST("/api/v1/partner/invites/accept", { body: { token, acceptTerms: terms }, headers: { "X-Mode": mode } }));
        forgetToken();
        setJoined(mode);
      };
      // The link does not say in which mode the programme is.
      await accept("live").catch((error: unknown) => {
        if (!(error instanceof TributaryError && error.code === "NOT_FOUND")) throw error;
        return accept("test").catch((error: unknown) => {
          throw invitationError(error, t);
        });
      });
    }, [api, token, terms, t]),
  );
  if (joined) {
    return (
      <Frame title={t.account.inviteTitle}>
        <Notice tone="good">{t.account.invitePartnerDone}</Notice>
        <a href={joined === "test" ? "/portal/test" : "/portal"}>{t.account.toHome}</a>
      </Frame>
    );
  }
  if (login.status !== "in") {
    return (
      <Frame title={t.account.inviteTitle} about={t.account.invitePartner}>
        {isNew ? <RegisterForm extra={{ inviteToken: token }} /> : <LoginForm />}
        <p className={css.switch}>
          {isNew ? t.account.haveAccount : t.account.noAccount}{" "}
          <Button kind="plain" small onPress={() => setNew(!isNew)}>
            {isNew ? t.account.login : t.account.register}
          </Button>
        </p>
      </Frame>
    );
  }
  return (
    <Frame title={t.account.inviteTitle} about={login.user.email}>
      <Form
        state={state}
        label={t.account.inviteAccept}
        secondary={
          <Button kind="plain" onPress={() => void session.logout()}>
            {t.account.anotherAccount}
          </Button>
        }
      >
        <Checkbox name="acceptTerms" isSelected={terms} onChange={setTerms}>
          {t.account.inviteTerms}
        </Checkbox>
      </Form>
    </Frame>
  );
}
