import { useCallback, useState } from "react";

import { ExportCard } from "../../app/account/ExportCard";
import { unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
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
  const { t } = useTexts();
  const params = { path: { programId: program.id, participantId: participant.id } };
  const start = async () => unwrap(await api.POST("/api/v1/programs/{programId}/partners/{participantId}/export", { params }));
  return <ExportCard hint={t.partners.exportHint} label={t.partners.exportStart} start={start} />;
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
