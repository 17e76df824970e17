import { useMutation } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done, Failure } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import { Card } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { useReload } from "./data";
import type { Props } from "./PartnerDetail";

/** The export and the erasure of the partner's data in the programme. */
export function PersonalData(props: Props) {
  const { t } = useTexts();
  const can = useCan();
  if (!can("ExportParticipant")) return <p>{t.partners.noPermission}</p>;
  return (
    <>
      <Export {...props} />
      {!props.participant.erasedAt && <Erasure {...props} />}
    </>
  );
}

function Export({ participant, program }: Props) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const params = { path: { programId: program.id, participantId: participant.id } };
  const start = useMutation({ mutationFn: async () => unwrap(await api.POST("/api/v1/programs/{programId}/partners/{participantId}/export", { params })) });
  const { download_url: address, expires_at: expiry, filename } = start.data ?? {};
  return (
    <Card title={t.settings.exportTitle}>
      <p>{t.partners.exportHint}</p>
      {start.isError && <Failure error={start.error} retry={() => start.mutate()} />}
      {address ? (
        <>
          <Done>{t.settings.exportReady(expiry ? f.time(expiry) : "")}</Done>
          <p>
            <LinkButton kind="primary" href={address} download={filename}>
              {t.settings.exportDownload}
            </LinkButton>
          </p>
        </>
      ) : (
        <p>
          <Button isPending={start.isPending} onPress={() => start.mutate()}>
            {t.partners.exportStart}
          </Button>
        </p>
      )}
    </Card>
  );
}

function Erasure({ participant, program }: Props) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const [open, setOpen] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ confirmation }) => {
        const params = { path: { programId: program.id, participantId: participant.id } };
        unwrap(await api.POST("/api/v1/programs/{programId}/partners/{participantId}/erase", { params, body: { confirmation } }));
        await reload();
        setOpen(false);
      },
      [api, participant.id, program.id, reload],
    ),
  );
  return (
    <Card title={t.partners.eraseTitle}>
      <p>{t.partners.eraseHint}</p>
      <p>
        <Button kind="danger" onPress={() => setOpen(true)}>
          {t.partners.erase}
        </Button>
      </p>
      <Dialog title={t.partners.eraseTitle} open={open} onClose={() => setOpen(false)}>
        <Form state={state} label={t.partners.erase} kind="danger" secondary={<Button onPress={() => setOpen(false)}>{t.cancel}</Button>}>
          <strong>{participant.partnerName}</strong>
          <p>{t.partners.eraseHint}</p>
          <TextField name="confirmation" label={t.settings.erasePhrase} autoComplete="off" isRequired />
        </Form>
      </Dialog>
    </Card>
  );
}
