import { useQuery } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, Checkbox, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Done, Empty, Failure, Loaded } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { BulkBar, Card, Facts, Pages, usePage } from "../../kit/page";
import { outcomeOf } from "../bulk";
import { useCan } from "../can";
import { liveInterval } from "../data";
import { useProgram } from "../programs/data";
import { useTexts } from "../texts";
import { useGroups, useReload } from "./data";
import type { Program } from "./Partners";

type Participant = Schemas["Participant"];

/** The applications that wait for a decision, with all answers. */
export function Applications({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const can = useCan();
  const page = usePage();
  const list = useRef<HTMLDivElement>(null);
  const groups = useGroups(program.id).data ?? [];
  const questions = useProgram(program.id).data?.applicationQuestions ?? []; // lists of programmes have none
  const [group, setGroup] = useState("");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [messages, setMessages] = useState<ReadonlyMap<string, string>>(new Map());
  const [rejecting, setRejecting] = useState<string[] | null>(null);
  const [done, setDone] = useState("");
  const [error, setError] = useState<unknown>(null);
  const [pending, setPending] = useState(false);
  const path = { programId: program.id };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "partners", program.id, "applications", page],
    queryFn: async () => {
      return listOf(
        await api.GET("/api/v1/programs/{programId}/partners", {
          params: { path, query: { status: "pending", sortBy: "createdAt", sortOrder: "asc", ...pageOf(page) } },
        }),
      );
    },
    refetchInterval: liveInterval,
  });
  /** Decides about applications, and goes on with the next one. Those that fail stay selected. */
  const decide = async (call: () => Promise<Parameters<typeof outcomeOf<Schemas["BulkParticipantResult"]>>[0]>, text: (count: string) => string) => {
    setPending(true);
    setError(null);
    setDone("");
    try {
      const { changed, failed } = outcomeOf(await call(), ({ participantId }) => participantId);
      setMessages(failed);
      setSelected(new Set(failed.keys()));
      if (changed.length > 0) setDone(text(f.number(changed.length)));
    } catch (failure) {
      setError(failure);
    } finally {
      setRejecting(null);
      await reload();
      setPending(false);
      list.current?.querySelector("article")?.focus();
    }
  };
  const approve = (ids: string[]) =>
    decide(
      async () => {
        if (group) {
          for (const participantId of ids) {
            const params = { path: { ...path, participantId } };
            unwrap(await api.PATCH("/api/v1/programs/{programId}/partners/{participantId}", { params, body: { groupId: group } }));
          }
        }
        return api.PATCH("/api/v1/programs/{programId}/partners/bulk-approve", { params: { path }, body: { participantIds: ids } });
      },
      t.partners.approved,
    );
  const canDecide = can("BulkApproveParticipants");
  return (
    <Loaded query={query}>
      {({ data, total, capped }) => {
        const open = data.filter(({ partnerConsent }) => !partnerConsent).map(({ id }) => id);
        const chosen = open.filter((id) => selected.has(id));
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
                      questions={questions}
                      message={messages.get(application.id)}
                      {...(canDecide &&
                        !application.partnerConsent && {
                          isSelected: selected.has(application.id),
                          onSelect: (on: boolean) => setSelected(on ? new Set([...selected, application.id]) : new Set([...selected].filter((id) => id !== application.id))),
                          onApprove: () => void approve([application.id]),
                          onReject: () => setRejecting([application.id]),
                          isPending: pending,
                        })}
                    />
                  ))}
                </div>
                {canDecide && (
                  <BulkBar
                    ids={open}
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
              <RejectDialog
                count={rejecting.length}
                onClose={() => setRejecting(null)}
                onReject={(reason) =>
                  decide(
                    () =>
                      api.PATCH("/api/v1/programs/{programId}/partners/bulk-reject", { params: { path }, body: { participantIds: rejecting, ...(reason && { reason }) } }),
                    t.partners.rejected,
                  )
                }
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
  questions,
  message,
  isSelected,
  onSelect,
  onApprove,
  onReject,
  isPending,
}: {
  application: Participant;
  questions: Program["applicationQuestions"];
  message: string | undefined;
  isSelected?: boolean;
  onSelect?: (on: boolean) => void;
  onApprove?: () => void;
  onReject?: () => void;
  isPending?: boolean;
}) {
  const { t, f } = useTexts();
  const { partnerName, partnerEmail, appliedAt, createdAt, applicationAnswers, partnerConsent, referralCode } = application;
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

function RejectDialog({ count, onReject, onClose }: { count: number; onReject: (reason: string) => Promise<void>; onClose: () => void }) {
  const { t, f } = useTexts();
  const state = useSubmit(useCallback(({ reason = "" }) => onReject(reason), [onReject]));
  return (
    <Dialog title={t.partners.rejectTitle(f.number(count))} open onClose={onClose}>
      <Form state={state} label={t.partners.reject} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
        <p>{t.partners.rejectHint}</p>
        <TextField name="reason" label={`${t.partners.reason} (${t.form.optional})`} lines maxLength={500} />
      </Form>
    </Dialog>
  );
}
