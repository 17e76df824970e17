import { useQuery } from "@tanstack/react-query";
import { lazy, Suspense, useEffect } from "react";
import { useParams } from "wouter";

import { Frame } from "../../app/account/Frame";
import css from "../../app/account/frame.module.css";
import { TributaryError, useApp, useSession } from "../../app/app";
import { paged } from "../../app/data";
import { get } from "../../app/request";
import { LinkButton } from "../../kit/controls";
import { Failure, Notice, Skeleton } from "../../kit/feedback";
import { Card } from "../../kit/page";
import type { PortalProgram } from "../data";
import { Introduction } from "../programs/Conditions";
import { useTexts } from "../texts";
import { Account } from "./Account";
import { Branded, Waiting } from "./Branded";

/** The form of an application is loaded while the visitor logs in. */
const loadJoining = () => import("./Joining");
const Joining = lazy(loadJoining);

/** The address that the browser has opened, and its programme, which the gateway has written into the page. */
const opened = {
  path: location.pathname,
  program: JSON.parse(document.getElementById("program")?.textContent ?? "null") as PortalProgram | null,
};

/** The public page of a programme, on which anybody can apply. */
export function ProgramPage() {
  const { workspace = "", program: slug = "" } = useParams<{ workspace: string; program: string }>();
  const { mode, session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const query = useQuery({
    ...paged, // the page stays when the visitor logs in
    queryKey: [mode, "portal", workspace, slug],
    queryFn: () => get<PortalProgram>(`/api/v1/portal/programs/${encodeURIComponent(workspace)}/${encodeURIComponent(slug)}?mode=${mode}`),
    initialData: (location.pathname === opened.path && opened.program) || undefined,
    initialDataUpdatedAt: performance.timeOrigin,
  });
  const { data: program, error } = query;
  if (!program) {
    if (!error) return <Waiting />;
    const isMissing = error instanceof TributaryError && error.status === 404;
    return (
      <Frame title={isMissing ? t.errors.missing : t.app.name} about={isMissing && t.join.missing}>
        {!isMissing && <Failure error={error} retry={() => void query.refetch()} />}
        <LinkButton href="/">{t.errors.home}</LinkButton>
      </Frame>
    );
  }
  const { branding } = program;
  if (!branding) return null;
  return (
    <Branded
      branding={branding}
      mode={mode}
      title={program.name}
      about={t.programs.by(branding.name)}
      actions={login.status === "in" && <LinkButton href="/">{t.account.toHome}</LinkButton>}
    >
      <div className={css.columns}>
        <Introduction program={program} />
        {login.status === "in" ? (
          <Suspense fallback={<Skeleton />}>
            <Joining program={program} user={login.user} />
          </Suspense>
        ) : (
          <Visiting program={program} />
        )}
      </div>
    </Branded>
  );
}

/** The first step of an application: an account. */
function Visiting({ program }: { program: PortalProgram }) {
  const { t } = useTexts();
  const byInvitation = program.registrationNeedsInvitation;
  useEffect(() => void loadJoining(), []);
  return (
    <Card title={t.join.title}>
      <p>{program.autoApprovePartners ? t.join.atOnce : t.join.reviewed}</p>
      {byInvitation && <Notice>{t.join.needsInvitation}</Notice>}
      <Account isNew canRegister={!byInvitation} />
    </Card>
  );
}
