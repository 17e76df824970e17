import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { unwrap, useApp, useSession } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button } from "../../kit/controls";
import { Empty, Failure, Loaded } from "../../kit/feedback";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useReloadOf } from "../data";
import { Confirm } from "../decision";
import { useTexts } from "../texts";

type Invite = Schemas["Invite"];

/** The invitations that can still be accepted. */
export function Invitations() {
  const { api, mode, session } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const reload = useReloadOf("invites");
  const login = useSession(session);
  const isOwner = login.status === "in" && login.user.role === "owner";
  const [asked, setAsked] = useState<Invite | null>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "invites", page],
    queryFn: async () => listOf(await api.GET("/api/v1/workspace/invites", { params: { query: pageOf(page) } })),
  });
  const revoke = useMutation({
    mutationFn: async (inviteId: string) => unwrap(await api.DELETE("/api/v1/workspace/invites/{inviteId}", { params: { path: { inviteId } } })),
    onSettled: reload,
  });
  return (
    <Loaded query={query}>
      {({ data, total, capped }) => (
        <>
          {revoke.isError && <Failure error={revoke.error} />}
          {data.length === 0 ? (
            <Card>
              <Empty title={t.team.noInvitation}>{t.team.noInvitationHint}</Empty>
            </Card>
          ) : (
            <Table
              caption={t.team.invitations}
              stale={query.isPlaceholderData}
              rows={data}
              columns={[
                { name: t.form.email, cell: (row) => row.email, lead: true },
                { name: t.team.role, cell: (row) => row.role && t.roles[row.role] },
                { name: t.team.sent, cell: (row) => row.createdAt && f.date(row.createdAt), sorted: true },
                { name: t.team.expires, cell: (row) => row.expiresAt && f.time(row.expiresAt) },
                {
                  name: t.team.action,
                  cell: (row) =>
                    (isOwner || row.role !== "owner") && (
                      <Button small kind="danger" aria-label={`${t.team.revoke}: ${row.email}`} onPress={() => setAsked(row)}>
                        {t.team.revoke}
                      </Button>
                    ),
                },
              ]}
            />
          )}
          <Pages total={total} capped={capped} />
          {asked && (
            <Confirm
              title={t.team.revokeTitle(asked.email)}
              hint={t.team.revokeHint}
              label={t.team.revoke}
              danger
              onConfirm={async () => void (await revoke.mutateAsync(asked.id).catch(() => {}))}
              onClose={() => setAsked(null)}
            />
          )}
        </>
      )}
    </Loaded>
  );
}
