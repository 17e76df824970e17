import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useParameter } from "../../app/address";
import { useApp, useSession } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button } from "../../kit/controls";
import { Badge, Done, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Pages, Table, Tabs, usePage } from "../../kit/page";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";
import { Invitations } from "./Invitations";
import { InviteDialog, RemoveDialog, RoleDialog, TransferDialog } from "./MemberDialogs";

export type Member = Schemas["Member"];
type Open = { view: "invite" | "transfer" } | { view: "role" | "remove"; member: Member };

/** The team: the members of the workspace, and the invitations. */
export default function Members() {
  const { session } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const login = useSession(session);
  const [show] = useParameter("show", "members");
  const [open, setOpen] = useState<Open | null>(null);
  const [done, setDone] = useState("");
  const close = () => setOpen(null);
  const props = { onDone: setDone, onClose: close };
  const tabs: [string, string][] = [["members", t.team.members]];
  if (can("ListInvites")) tabs.push(["invitations", t.team.invitations]);
  return (
    <SettingsPage
      title={t.team.title}
      about={t.team.about}
      actions={
        <>
          {can("TransferOwnership") && <Button onPress={() => setOpen({ view: "transfer" })}>{t.team.transfer}</Button>}
          {can("CreateInvite") && (
            <Button kind="primary" onPress={() => setOpen({ view: "invite" })}>
              {t.team.invite}
            </Button>
          )}
        </>
      }
    >
      {tabs.length > 1 && <Tabs label={t.team.title} tabs={tabs} />}
      {done && <Done key={done}>{done}</Done>}
      {show === "invitations" && can("ListInvites") ? <Invitations /> : <List own={login.status === "in" ? login.user.id : ""} onOpen={setOpen} />}
      {open?.view === "invite" && <InviteDialog {...props} />}
      {open?.view === "transfer" && <TransferDialog {...props} />}
      {open?.view === "role" && <RoleDialog member={open.member} {...props} />}
      {open?.view === "remove" && <RemoveDialog member={open.member} {...props} />}
    </SettingsPage>
  );
}

function List({ own, onOpen }: { own: string; onOpen: (open: Open) => void }) {
  const { api, mode, session } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const login = useSession(session);
  const isOwner = login.status === "in" && login.user.role === "owner";
  const query = useQuery({
    ...paged,
    queryKey: [mode, "members", page],
    queryFn: async () => listOf(await api.GET("/api/v1/workspace/members", { params: { query: pageOf(page) } })),
    refetchInterval: liveInterval,
  });
  const actions = (member: Member) => {
    const mayChange = can("UpdateMember") && (isOwner || member.role !== "owner");
    const isOwn = member.id === own;
    return (
      <span className={kit.actions}>
        {mayChange && (
          <Button small aria-label={`${t.team.changeRole}: ${member.name}`} onPress={() => onOpen({ view: "role", member })}>
            {t.team.changeRole}
          </Button>
        )}
        {(isOwn || mayChange) && can("RemoveMember") && (
          <Button small kind="danger" aria-label={`${isOwn ? t.team.leave : t.team.remove}: ${member.name}`} onPress={() => onOpen({ view: "remove", member })}>
            {isOwn ? t.team.leave : t.team.remove}
          </Button>
        )}
      </span>
    );
  };
  return (
    <Loaded query={query}>
      {({ data, total, capped }) => (
        <>
          <Table
            caption={t.team.members}
            stale={query.isPlaceholderData}
            rows={data}
            columns={[
              {
                name: t.form.name,
                cell: (member) => (
                  <>
                    {member.name} {member.id === own && <Badge>{t.team.you}</Badge>}
                  </>
                ),
                lead: true,
              },
              { name: t.form.email, cell: (member) => member.email },
              { name: t.team.role, cell: (member) => member.role && <span title={t.team.roles[member.role]}>{t.roles[member.role]}</span> },
              { name: t.settings.factorTitle, cell: (member) => <Badge tone={member.secondFactor ? "good" : "warn"}>{member.secondFactor ? t.team.on : t.team.off}</Badge> },
              { name: t.team.since, cell: (member) => member.createdAt && f.date(member.createdAt) },
              { name: t.team.action, cell: actions },
            ]}
          />
          <Pages total={total} capped={capped} />
        </>
      )}
    </Loaded>
  );
}
