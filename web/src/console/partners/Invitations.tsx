import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf } from "../../app/data";
import { Button } from "../../kit/controls";
import { Empty, Failure, Loaded } from "../../kit/feedback";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";

/** The invitations that are not accepted yet. */
export function Invitations({ programId }: { programId: string }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const queries = useQueryClient();
  const can = useCan();
  const page = usePage();
  const path = { programId };
  const key = [mode, "partners", programId, "invitations"];
  const query = useQuery({
    ...paged,
    queryKey: [...key, page],
    queryFn: async () => listOf(await api.GET("/api/v1/programs/{programId}/partners/invites", { params: { path, query: pageOf(page) } })),
  });
  const revoke = useMutation({
    mutationFn: async (inviteId: string) =>
      unwrap(await api.DELETE("/api/v1/programs/{programId}/partners/invites/{inviteId}", { params: { path: { ...path, inviteId } } })),
    onSettled: () => queries.invalidateQueries({ queryKey: key }),
  });
  return (
    <Loaded query={query}>
      {({ data, total, capped }) =>
        data.length === 0 ? (
          <Card>
            <Empty title={t.partners.noInvitations}>{t.partners.noInvitationsHint}</Empty>
          </Card>
        ) : (
          <>
            {revoke.isError && <Failure error={revoke.error} />}
            <Table
              caption={t.partners.tabs.invitations}
              stale={query.isPlaceholderData}
              rows={data}
              columns={[
                { name: t.form.email, cell: (row) => row.email, lead: true },
                { name: t.partners.invited, cell: (row) => row.createdAt && f.date(row.createdAt), sorted: true },
                { name: t.partners.expires, cell: (row) => row.expiresAt && f.time(row.expiresAt) },
                ...(can("RevokeParticipantInvite")
                  ? [
                      {
                        name: t.partners.action,
                        cell: (row: { id: string; email: string }) => (
                          <Button small kind="danger" isDisabled={revoke.isPending} aria-label={`${t.partners.revoke}: ${row.email}`} onPress={() => revoke.mutate(row.id)}>
                            {t.partners.revoke}
                          </Button>
                        ),
                      },
                    ]
                  : []),
              ]}
            />
            <Pages total={total} capped={capped} />
          </>
        )
      }
    </Loaded>
  );
}
