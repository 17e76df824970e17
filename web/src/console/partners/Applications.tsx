import { useQuery } from "@tanstack/react-query";
import { useRef, useState } from "react";

import { Refusal, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, Checkbox } from "../../kit/controls";
import { Badge, Done, Empty, Failure, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { BulkBar, Card, Facts, Pages, usePage } from "../../kit/page";
import { outcomeOf } from "../bulk";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { useProgram } from "../programs/data";
import { useTexts } from "../texts";
import { AskReason } from "./AskReason";
import { useGroups, useReload } from "./data";

type Participant = Schemas["Participant"];
type Result = Schemas["BulkParticipantResult"];
type Decision = Parameters<typeof outcomeOf<Result>>[0];

const idOf = ({ participantId }: Result) => participantId;

/** The applications that wait for a decision, with all answers: those of all programmes or of one. */
export function Applications({ programId }: { programId: string }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const can = useCan();
  const page = usePage();
  const list = useRef<HTMLDivElement>(null);
  const groups = useGroups(programId).data ?? [];
  const [group, setGroup] = useState("");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [messages, setMessages] = useState<ReadonlyMap<string, string>>(new Map());
  const [rejecting, setRejecting] = useState<Participant[] | null>(null);
  const [done, setDone] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [pending, setPending] = useState(false);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "partners", "applications", programId, page],
    queryFn: async () =>
      listOf(
        await api.GET("/api/v1/partners", {
          params: { query: { status: "pending", ...(programId && { programId }), sortBy: "createdAt", sortOrder: "asc", ...pageOf(page) } },
        }),
      ),
    refetchInterval: liveInterval,
  });
  /** Decides about the applications of each programme, and goes on with the next one. Those that fail stay selected. */
  const decide = async (chosen: Participant[], call: (programId: string, ids: string[]) => Promise<Decision>, text: (count: string) => string) => {
    setPending(true);
    setError(null);
    setDone("");
    try {
      let changed = 0;
      const failed = new Map<string, string>();
      for (const program of new Set(chosen.map(({ programId }) => programId))) {
        const ids = chosen.filter(({ programId }) => programId === program).map(({ id }) => id);
        const outcome = outcomeOf(await call(program, ids), idOf);
        changed += outcome.changed.length;
        for (const [id, message] of outcome.failed) failed.set(id, message);
      }
      setMessages(failed);
      setSelected(new Set(failed.keys()));
      if (changed > 0) setDone(text(f.number(changed)));
    } catch (failure) {
      setError(failure);
    } finally {
      setRejecting(null);
      await reload();
      setPending(false);
      list.current?.querySelector("article")?.focus();
    }
  };
  const approve = (chosen: Participant[]) =>
    decide(
      chosen,
      async (programId, participantIds) => {
        const params = { path: { programId } };
        if (group) {
          const { failed } = outcomeOf(await api.PATCH("/api/v1/programs/{programId}/partners/bulk-update", { params, body: { participantIds, groupId: group } }), idOf);
          for (const message of failed.values()) throw new Refusal(message);
        }
        return api.PATCH("/api/v1/programs/{programId}/partners/bulk-approve", { params, body: { participantIds } });
      },
      t.partners.approved,
    );
  const reject = (chosen: Participant[], reason: string) =>
    decide(
      chosen,
      (programId, participantIds) =>
        api.PATCH("/api/v1/programs/{programId}/partners/bulk-reject", { params: { path: { programId } }, body: { participantIds, ...(reason && { reason }) } }),
      t.partners.rejected,
    );
  const canDecide = can("BulkApproveParticipants");
  return (
    <Loaded query={query}>
      {({ data, total, capped }) => {
        const open = data.filter(({ partnerConsent }) => !partnerConsent);
        const chosen = open.filter(({ id }) => selected.has(id));
        return (
          <>
            {done && <Done key={done}>{done}</Done>}
            {error !== null && <Failure error={error} />}
            {data.length === 0 ? (
              <Card>
                <Empty title={t.partners.noApplications}>{t.partners.noApplicationsHint}</Empty>
              </Card>
            ) : (
              <>
                <div ref={list} className={kit.page}>
                  {data.map((application) => (
                    <Application
                      key={application.id}
                      application={application}
                      message={messages.get(application.id)}
                      {...(canDecide &&
                        !application.partnerConsent && {
                          isSelected: selected.has(application.id),
                          onSelect: (on: boolean) => setSelected(on ? new Set([...selected, application.id]) : new Set([...selected].filter((id) => id !== application.id))),
                          onApprove: () => void approve([application]),
                          onReject: () => setRejecting([application]),
                          isPending: pending,
                        })}
                    />
                  ))}
                </div>
                {canDecide && (
                  <BulkBar
                    ids={open.map(({ id }) => id)}
                    selected={selected}
                    onSelect={setSelected}
                    label={chosen.length > 0 ? t.partners.selected(f.number(chosen.length)) : t.commissions.selectAll}
                    fields={
                      groups.length > 0 && (
                        <Select
                          label={t.partners.approveInto}
                          options={[["", t.partners.noGroup], ...groups.map(({ id, name }): [string, string] => [id, name])]}
                          value={group}
                          onChange={(key) => setGroup(String(key))}
                        />
                      )
                    }
                  >
                    <Button kind="primary" isDisabled={chosen.length === 0} isPending={pending} onPress={() => void approve(chosen)}>
                      {t.partners.approve}
                    </Button>
                    <Button kind="danger" isDisabled={chosen.length === 0} onPress={() => setRejecting(chosen)}>
                      {t.partners.reject}
                    </Button>
                  </BulkBar>
                )}
                <Pages total={total} capped={capped} />
              </>
            )}
            {rejecting && (
              <AskReason
                title={t.partners.rejectTitle(f.number(rejecting.length))}
                hint={t.partners.rejectHint}
                label={t.partners.reject}
                onDecide={(reason) => reject(rejecting, reason)}
                onClose={() => setRejecting(null)}
              />
            )}
          </>
        );
      }}
    </Loaded>
  );
}

/** An application. Without onApprove, nothing can be decided about it. */
function Application({
  application,
  message,
  isSelected,
  onSelect,
  onApprove,
  onReject,
  isPending,
}: {
  application: Participant;
  message: string | undefined;
  isSelected?: boolean;
  onSelect?: (on: boolean) => void;
  onApprove?: () => void;
  onReject?: () => void;
  isPending?: boolean;
}) {
  const { t, f } = useTexts();
  const { programId, programName, partnerName, partnerEmail, appliedAt, createdAt, applicationAnswers, partnerConsent, referralCode } = application;
  const questions = useProgram(programId).data?.applicationQuestions ?? []; // lists of programmes have none
  const labels = new Map(questions.map(({ key, label }) => [key, label]));
  const time = appliedAt ?? createdAt;
  return (
    <article className={kit.card} tabIndex={-1} aria-label={partnerName}>
      <div className={kit.cardHead}>
        {onSelect ? (
          <Checkbox isSelected={isSelected ?? false} onChange={onSelect}>
            <strong>{partnerName}</strong>
          </Checkbox>
        ) : (
          <strong>{partnerName}</strong>
        )}
        {partnerConsent && <Badge tone="warn">{t.partners.consent[partnerConsent]}</Badge>}
      </div>
      <Facts
        rows={[
          [t.form.email, partnerEmail],
          [t.filter.program, programName],
          [t.partners.code, <span className={kit.code}>{referralCode}</span>],
          [t.partners.applied, time && `${f.time(time)} (${f.relative(time)})`],
          ...Object.entries(applicationAnswers).map(([key, answer]): [string, string] => [labels.get(key) ?? key, answer]),
        ]}
      />
      {message && <p className={kit.fault}>{message}</p>}
      {onApprove && (
        <div className={kit.actions}>
          <Button small kind="primary" isDisabled={isPending ?? false} aria-label={`${t.partners.approve}: ${partnerName}`} onPress={onApprove}>
            {t.partners.approve}
          </Button>
          <Button small kind="danger" isDisabled={isPending ?? false} aria-label={`${t.partners.reject}: ${partnerName}`} {...(onReject && { onPress: onReject })}>
            {t.partners.reject}
          </Button>
        </div>
      )}
    </article>
  );
}
