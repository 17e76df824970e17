import { useMutation } from "@tanstack/react-query";
import { type ReactNode, useCallback, useState } from "react";

import { TributaryError, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, Checkbox, ExternalLink, LinkButton, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Failure, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import type { Offer, Program } from "../data";
import { OwnLink } from "../links/OwnLink";
import { useTexts } from "../texts";

interface Props {
  program: Program;
  /** Loads the programme again, and shows a sentence about what is done. */
  onChanged: (text: string) => Promise<void>;
}

/**
 * What the partner can do in the programme: apply, answer the merchant who has added the partner,
 * or share the link.
 */
export function Taking({ program, onChanged, apply }: Props & { apply: ReactNode }) {
  const { t } = useTexts();
  const { participation } = program;
  if (!participation) {
    if (program.status !== "active") return <Notice>{t.programs.closed}</Notice>;
    return program.isPublic ? apply : <Notice>{t.programs.byInvitation}</Notice>;
  }
  if (participation.partnerConsent) return <Invitation program={program} declined={participation.partnerConsent === "declined"} onChanged={onChanged} />;
  if (participation.status === "rejected" || participation.status === "suspended") {
    return <Notice tone="bad">{t.programs.stopped[participation.status]}</Notice>;
  }
  return (
    <OwnLink
      program={program}
      title={t.programs.yourLink}
      action={
        <LinkButton small href={`/links?program=${program.id}`}>
          {t.programs.toLink}
        </LinkButton>
      }
      showQr
    />
  );
}

/** The button that opens the application, and its dialog. */
export function Apply({ program, onChanged }: Props) {
  const { t } = useTexts();
  const [open, setOpen] = useState(false);
  return (
    <>
      <p>
        <Button kind="primary" onPress={() => setOpen(true)}>
          {t.programs.apply}
        </Button>
      </p>
      <Dialog title={t.programs.applyTitle(program.name)} open={open} onClose={() => setOpen(false)}>
        <ApplicationForm program={program} onChanged={onChanged} secondary={<Button onPress={() => setOpen(false)}>{t.cancel}</Button>} />
      </Dialog>
    </>
  );
}

/** The application to a programme: its questions, the code of the link, and the terms. */
export function ApplicationForm({ program, onChanged, secondary }: { program: Offer; onChanged: Props["onChanged"]; secondary?: ReactNode }) {
  const { api } = useApp();
  const { t } = useTexts();
  const { id, applicationQuestions: questions, termsVersion } = program;
  const state = useSubmit(
    useCallback(
      async (values) => {
        const { referralCode, acceptTerms } = values;
        const body = { ...(referralCode && { referralCode }), answers: answersOf(questions, values), acceptTerms: acceptTerms !== undefined, termsVersion };
        const apply = async () => unwrap(await api.POST("/api/v1/partner/programs/{programId}/apply", { params: { path: { programId: id } }, body }));
        const { status } = await reloading(apply, onChanged);
        await onChanged(status === "approved" ? t.programs.accepted : t.programs.applied);
      },
      [api, id, questions, termsVersion, onChanged, t],
    ),
  );
  return (
    <Form state={state} label={t.programs.apply} secondary={secondary}>
      {questions.map((question) => (
        <QuestionField key={question.key} question={question} />
      ))}
      <TextField name="referralCode" label={`${t.programs.code} (${t.form.optional})`} hint={t.programs.codeHint} maxLength={50} />
      <AcceptTerms program={program} />
    </Form>
  );
}

function QuestionField({ question: { key, label, type, required, options } }: { question: Schemas["ApplicationQuestion"] }) {
  const { t } = useTexts();
  // The service names a fault of an answer in this way.
  const field = { name: `answers.${key}`, label: required ? label : `${label} (${t.form.optional})`, isRequired: required };
  switch (type) {
    case "checkbox":
      return (
        <Checkbox name={field.name} isRequired={required}>
          {field.label}
        </Checkbox>
      );
    case "select": {
      const choices = options.map((option): [string, string] => [option, option]);
      return <Select {...field} placeholder={t.join.choose} options={required ? choices : [["", t.join.noAnswer], ...choices]} />;
    }
    case "long_text":
      return <TextField {...field} lines maxLength={2000} />;
    case "url":
      return <TextField {...field} type="url" hint={t.join.urlHint} maxLength={2000} />;
    default:
      return <TextField {...field} maxLength={200} />;
  }
}

/** The answers in the values of a form. An empty field is no answer. */
function answersOf(questions: Schemas["ApplicationQuestion"][], values: Record<string, string>): Record<string, string> {
  const answers: Record<string, string> = {};
  for (const { key, type } of questions) {
    const value = values[`answers.${key}`];
    if (type === "checkbox") answers[key] = String(value !== undefined);
    else if (value) answers[key] = value;
  }
  return answers;
}

/** Loads the programme again if the page shows an old state: other terms, or no participation. */
async function reloading<T>(action: () => Promise<T>, onChanged: Props["onChanged"]): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof TributaryError && ["APPLICATION_DUPLICATE", "TERMS_CHANGED"].includes(error.code)) await onChanged("");
    throw error;
  }
}

/** Accepts or declines the participation that the merchant has made. It can be accepted after it was declined. */
function Invitation({ program, declined, onChanged }: Props & { declined: boolean }) {
  const { api } = useApp();
  const { t } = useTexts();
  const accept = useSubmit(
    useCallback(
      async ({ acceptTerms }) => {
        const body = { acceptTerms: acceptTerms !== undefined, termsVersion: program.termsVersion };
        const accept = async () => unwrap(await api.POST("/api/v1/partner/programs/{programId}/accept", { params: { path: { programId: program.id } }, body }));
        await reloading(accept, onChanged);
        await onChanged(t.programs.accepted);
      },
      [api, onChanged, program.id, program.termsVersion, t],
    ),
  );
  const decline = useMutation({
    mutationFn: async () => unwrap(await api.POST("/api/v1/partner/programs/{programId}/decline", { params: { path: { programId: program.id } }, body: {} })),
    onSuccess: () => onChanged(t.programs.declinedNow),
  });
  return (
    <Card>
      <p>{declined ? t.programs.declinedHint : t.programs.awaited}</p>
      {decline.isError && <Failure error={decline.error} />}
      <Form
        state={accept}
        label={t.programs.accept}
        secondary={
          !declined && (
            <Button isPending={decline.isPending} onPress={() => decline.mutate()}>
              {t.programs.decline}
            </Button>
          )
        }
      >
        <AcceptTerms program={program} />
      </Form>
    </Card>
  );
}

/** The terms of the programme, if it has terms: the address of a page, or a text. */
export function AcceptTerms({ program }: { program: Offer }) {
  const { t } = useTexts();
  if (!program.termsUrl && !program.termsText) return null;
  return (
    <>
      {program.termsUrl && <ExternalLink href={program.termsUrl}>{t.programs.openTerms}</ExternalLink>}
      {program.termsText && (
        <div className={kit.scroll} role="region" aria-label={t.programs.terms} tabIndex={0}>
          {program.termsText}
        </div>
      )}
      <Checkbox key={program.termsVersion} name="acceptTerms" isRequired>
        {t.programs.acceptTerms}
      </Checkbox>
    </>
  );
}
