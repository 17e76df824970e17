import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { confirmed } from "../../app/account/secrets";
import { TributaryError, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button } from "../../kit/controls";
import { Done, Failure, Notice, type Tone } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { Card, Facts } from "../../kit/page";
import { useTexts } from "../texts";
import { Proof } from "./Proof";

type Proposal = Schemas["PayoutMethodProposal"];

/** The end of a proposal: which one it was, and a sentence about it. */
type End = { id: string; text: string; tone?: Tone };

/** The payout methods that merchants propose. Nothing is paid to them until the partner confirms them. */
export function Proposals() {
  const { api, mode } = useApp();
  const queries = useQueryClient();
  const [end, setEnd] = useState<End | null>(null);
  const query = useQuery({
    queryKey: [mode, "proposals"],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/payout-method/proposals")).data,
  });
  const ended = useCallback(
    async (end: End) => {
      await Promise.all(["proposals", "profile"].map((key) => queries.invalidateQueries({ queryKey: [mode, key] })));
      setEnd(end);
    },
    [mode, queries],
  );
  return (
    <>
      {end && (
        <Done key={end.id} tone={end.tone}>
          {end.text}
        </Done>
      )}
      {query.isError && <Failure error={query.error} retry={() => void query.refetch()} />}
      {query.data?.map((proposal) => (
        <ProposalCard key={proposal.id} proposal={proposal} onEnd={ended} />
      ))}
    </>
  );
}

function ProposalCard({ proposal, onEnd }: { proposal: Proposal; onEnd: (end: End) => Promise<void> }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const { id, method, account, accountHint, accountHolder, merchantName, programName, proposedAt } = proposal;
  /** Makes a call that ends the proposal, which the merchant may have changed in the meantime. */
  const finish = useCallback(
    async (call: () => Promise<unknown>, text: string) => {
      try {
        await call();
      } catch (error) {
        if (!(error instanceof TributaryError) || error.code !== "NOT_FOUND") throw error;
        return onEnd({ id, text: t.payouts.proposalGone, tone: "warn" });
      }
      return onEnd({ id, text });
    },
    [id, onEnd, t],
  );
  const confirm = useSubmit(
    useCallback(
      async ({ password, code }) => {
        const path = { proposalId: id };
        const call = async () =>
          unwrap(await api.POST("/api/v1/partner/payout-method/proposals/{proposalId}/confirm", { params: { path }, body: code ? { code } : { password } }));
        await finish(() => confirmed(t, code ? ["code"] : ["password"], call), t.payouts.proposalConfirmed);
      },
      [api, finish, id, t],
    ),
  );
  const decline = useMutation({
    mutationFn: () =>
      finish(
        async () => unwrap(await api.DELETE("/api/v1/partner/payout-method/proposals/{proposalId}", { params: { path: { proposalId: id } } })),
        t.payouts.proposalDeclined,
      ),
  });
  return (
    <Card title={t.payouts.proposal(merchantName ?? "")}>
      <Facts
        rows={[
          [t.payouts.method, method && t.method[method]],
          [t.payouts.account, account ?? accountHint],
          [t.payouts.holder, accountHolder],
          [t.payouts.program, programName],
          [t.payouts.date, proposedAt && f.date(proposedAt)],
        ]}
      />
      <p>
        {t.payouts.proposalHint} {account && t.payouts.proposalCheck}
      </p>
      <Notice>{t.payouts.rule}</Notice>
      {decline.isError && <Failure error={decline.error} />}
      <Form
        state={confirm}
        label={t.payouts.proposalConfirm}
        secondary={
          <Button isPending={decline.isPending} onPress={() => decline.mutate()}>
            {t.programs.decline}
          </Button>
        }
      >
        <Proof />
      </Form>
    </Card>
  );
}
