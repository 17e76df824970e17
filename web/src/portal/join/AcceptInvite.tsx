import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { Frame } from "../../app/account/Frame";
import css from "../../app/account/frame.module.css";
import { forgetToken, Incomplete, kindOf } from "../../app/account/mailed";
import { fragment } from "../../app/address";
import { Refusal, TributaryError, unwrap, useApp, useSession } from "../../app/app";
import { paged, type Schemas } from "../../app/data";
import { post } from "../../app/request";
import { BrowserSession, type User } from "../../app/session";
import { LinkButton, TextField } from "../../kit/controls";
import { Done, Failure, Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { type Branding, type PortalProgram, useProgram } from "../data";
import { OwnLink } from "../links/OwnLink";
import { Introduction } from "../programs/Conditions";
import { AcceptTerms } from "../programs/Join";
import { type Texts, useTexts } from "../texts";
import { Account, LoggedInAs } from "./Account";
import { Branded, Waiting } from "./Branded";

type PortalInvite = Schemas["PortalInvite"];

interface Props {
  token: string;
  invite: PortalInvite;
  branding: Branding;
}

/** The page to which the link in an invitation leads. */
export default function AcceptInvite() {
  const { t } = useTexts();
  const [token] = useState(() => fragment().get("token"));
  return token ? <Opened token={token} /> : <Incomplete title={t.account.inviteTitle} />;
}

function Opened({ token }: { token: string }) {
  const { t } = useTexts();
  const query = useQuery({
    ...paged, // the page stays when the visitor logs in
    queryKey: ["invite", token],
    queryFn: () => post<PortalInvite>("/api/v1/portal/invites/lookup", { token }),
    staleTime: Infinity, // an invitation that was accepted cannot be loaded again
  });
  const { data: invite, error } = query;
  if (!invite) {
    if (!error) return <Waiting />;
    return (
      <Frame title={t.account.inviteTitle}>
        {isGone(error) ? (
          <>
            <Notice tone="bad">{t.errors.codes.INVITE_TOKEN_INVALID}</Notice>
            <p>{t.join.gone}</p>
          </>
        ) : (
          <Failure error={error} retry={() => void query.refetch()} />
        )}
        {kindOf() === "partner" && <LinkButton href="/">{t.account.toHome}</LinkButton>}
      </Frame>
    );
  }
  const { branding, program } = invite;
  if (!branding) return null;
  if (!program) return <AsMember token={token} invite={invite} branding={branding} />;
  return <AsPartner token={token} invite={invite} branding={branding} program={program} reload={query.refetch} />;
}

function isGone(error: unknown): boolean {
  return error instanceof TributaryError && error.code === "NOT_FOUND";
}

/** Returns the error of an acceptance. An invitation that cannot be accepted any more is not found. */
function invitationError(error: unknown, t: Texts): unknown {
  return isGone(error) ? new Refusal(t.errors.codes.INVITE_TOKEN_INVALID) : error;
}

function AsMember({ token, invite, branding }: Props) {
  const { t, f } = useTexts();
  const [joined, setJoined] = useState("");
  const state = useSubmit(
    useCallback(
      async ({ name, password }) => {
        const body = { token, name, password };
        const member = new BrowserSession("merchant");
        await member.open("accept-invite", body, true).catch((error: unknown) => {
          throw invitationError(error, t);
        });
        forgetToken();
        const joined = member.snapshot();
        if (joined.status === "in") setJoined(t.account.inviteMemberDone(joined.workspace?.name ?? "", joined.user.email));
      },
      [token, t],
    ),
  );
  return (
    <Branded branding={branding} mode={null} title={t.account.inviteTitle} about={t.join.asMember(branding.name)}>
      <div className={css.narrow}>
        {joined ? (
          <>
            <Done>{joined}</Done>
            <a href="/console">{t.account.toHome}</a>
          </>
        ) : (
          <Card>
            <Facts
              rows={[
                [t.join.role, invite.role && t.roles[invite.role]],
                [t.form.email, invite.email],
                [t.join.validUntil, invite.expiresAt && f.time(invite.expiresAt)],
              ]}
            />
            <p>{t.account.inviteMember}</p>
            <Form state={state} label={t.account.inviteAccept}>
              <TextField name="name" label={t.form.name} autoComplete="name" isRequired />
              <TextField name="password" type="password" label={t.form.password} hint={t.form.passwordHint} autoComplete="new-password" isRequired />
            </Form>
          </Card>
        )}
      </div>
    </Branded>
  );
}

interface PartnerProps extends Props {
  program: PortalProgram;
  /** Loads the invitation again. */
  reload: () => Promise<unknown>;
}

function AsPartner(props: PartnerProps) {
  const { invite, branding, program } = props;
  const { session } = useApp();
  const { t, f } = useTexts();
  const login = useSession(session);
  const [joined, setJoined] = useState(false);
  return (
    <Branded branding={branding} mode={program.mode} title={t.account.inviteTitle} about={t.join.asPartner(branding.name, program.name)}>
      <div className={css.columns}>
        <Introduction program={{ ...program, participation: { commissionRate: invite.commissionRate } }} />
        {joined ? (
          <Joined program={program} />
        ) : (
          <Card title={t.join.yourInvitation}>
            <Facts
              rows={[
                [t.form.email, invite.email],
                [t.join.validUntil, invite.expiresAt && f.time(invite.expiresAt)],
              ]}
            />
            {login.status === "in" ? <Accept {...props} user={login.user} onJoined={() => setJoined(true)} /> : <LogIn token={props.token} />}
          </Card>
        )}
      </div>
    </Branded>
  );
}

function LogIn({ token }: { token: string }) {
  const { t } = useTexts();
  return (
    <>
      <p>{t.account.invitePartner}</p>
      <Account invitation={token} />
    </>
  );
}

function Accept({ token, program, user, reload, onJoined }: PartnerProps & { user: User; onJoined: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const { mode, termsVersion } = program;
  const state = useSubmit(
    useCallback(
      async ({ acceptTerms }) => {
        const body = { token, acceptTerms: acceptTerms !== undefined, termsVersion };
        try {
          unwrap(await api.POST("/api/v1/partner/invites/accept", { body, headers: { "X-Mode": mode ?? "live" } }));
        } catch (error) {
          if (error instanceof TributaryError && error.code === "TERMS_CHANGED") await reload();
          throw invitationError(error, t);
        }
        forgetToken();
        onJoined();
      },
      [api, token, mode, termsVersion, reload, onJoined, t],
    ),
  );
  return (
    <>
      <LoggedInAs email={user.email} />
      <Form state={state} label={t.account.inviteAccept}>
        <AcceptTerms program={program} />
      </Form>
    </>
  );
}

/** The link of the new partner. */
function Joined({ program: { id, mode } }: { program: PortalProgram }) {
  const { t } = useTexts();
  const query = useProgram(id, mode ?? "live");
  return (
    <div className={kit.page}>
      <Done>{t.account.invitePartnerDone}</Done>
      <Loaded query={query}>{(program) => <OwnLink program={program} title={t.programs.yourLink} showQr />}</Loaded>
      {/* The page may be in the other mode. */}
      <a href={mode === "test" ? "/portal/test" : "/portal"}>{t.account.toHome}</a>
    </div>
  );
}
