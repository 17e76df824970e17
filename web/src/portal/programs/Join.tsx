import { useMutation } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { TributaryError, unwrap, useApp } from "../../app/app";
import { useTexts } from "../../app/texts";
import { Button, Checkbox, ExternalLink, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Failure } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import type { Program } from "../data";

interface Props {
  program: Program;
  /** Loads the programme again, and shows a sentence about what is done. */
  onChanged: (text: string) => Promise<void>;
}

/** The button that opens the application, and its dialog. */
export function Apply({ program, onChanged }: Props) {
  const { api } = useApp();
  const { t } = useTexts();
  const [open, setOpen] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ referralCode, acceptTerms }) => {
        const body = { ...(referralCode && { referralCode }), acceptTerms: acceptTerms !== undefined };
        try {
          const { status } = unwrap(
            await api.POST("/api/v1/partner/programs/{programId}/apply", { params: { path: { programId: program.id } }, body }),
          );
          await onChanged(status === "approved" ? t.programs.accepted : t.programs.applied);
        } catch (error) {
          // The page then shows the participation that there is.
          if (error instanceof TributaryError && error.code === "APPLICATION_DUPLICATE") await onChanged("");
          throw error;
        }
      },
      [api, onChanged, program.id, t],
    ),
  );
  return (
    <>
      <p>
        <Button kind="primary" onPress={() => setOpen(true)}>
          {t.programs.apply}
        </Button>
      </p>
      <Dialog title={t.programs.applyTitle(program.name)} open={open} onClose={() => setOpen(false)}>
        <Form state={state} label={t.programs.apply} secondary={<Button onPress={() => setOpen(false)}>{t.cancel}</Button>}>
          <TextField name="referralCode" label={`${t.programs.code} (${t.form.optional})`} hint={t.programs.codeHint} maxLength={50} />
          <AcceptTerms program={program} />
        </Form>
      </Dialog>
    </>
  );
}

/** Accepts or declines the participation that the merchant has made. It can be accepted after it was declined. */
export function Invitation({ program, declined, onChanged }: Props & { declined: boolean }) {
  const { api } = useApp();
  const { t } = useTexts();
  const accept = useSubmit(
    useCallback(
      async ({ acceptTerms }) => {
        const body = { acceptTerms: acceptTerms !== undefined };
        unwrap(await api.POST("/api/v1/partner/programs/{programId}/accept", { params: { path: { programId: program.id } }, body }));
        await onChanged(t.programs.accepted);
      },
      [api, onChanged, program.id, t],
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
function AcceptTerms({ program }: { program: Program }) {
  const { t } = useTexts();
  if (!program.termsUrl && !program.termsText) return null;
  return (
    <>
      {program.termsUrl && <ExternalLink href={program.termsUrl}>{t.programs.openTerms}</ExternalLink>}
      {program.termsText && <p className={kit.text}>{program.termsText}</p>}
      <Checkbox name="acceptTerms" isRequired>
        {t.programs.acceptTerms}
      </Checkbox>
    </>
  );
}
