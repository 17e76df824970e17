import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done, Empty } from "../../kit/feedback";
import { FieldFault, Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useTexts } from "../texts";
import { SettingsPage } from "./SettingsPage";

type Deleted = Schemas["DeletedTestData"];

/** The deletion of everything in test mode. */
export default function TestData() {
  const { mode } = useApp();
  const { t } = useTexts();
  const [asking, setAsking] = useState(false);
  const [deleted, setDeleted] = useState<Deleted | null>(null);
  const [started, setStarted] = useState("");
  if (mode === "live") {
    return (
      <SettingsPage title={t.testData.title}>
        <Card>
          <Empty title={t.testData.onlyTest} action={<LinkButton href="/">{t.errors.home}</LinkButton>} />
        </Card>
      </SettingsPage>
    );
  }
  return (
    <SettingsPage title={t.testData.title} about={t.testData.about}>
      {started && !deleted && <Progress since={started} onDeleted={setDeleted} />}
      {deleted && <Result deleted={deleted} />}
      <Card
        title={t.testData.delete}
        action={
          <Button kind="danger" onPress={() => setAsking(true)}>
            {t.testData.delete}
          </Button>
        }
      >
        <p>{t.testData.deletes}</p>
        <p>{t.testData.keeps}</p>
      </Card>
      {asking && (
        <DeleteDialog
          onStarted={(result) => {
            setStarted(new Date().toISOString());
            setDeleted(result);
          }}
          onClose={() => setAsking(false)}
        />
      )}
    </SettingsPage>
  );
}

function DeleteDialog({ onStarted, onClose }: { onStarted: (deleted: Deleted | null) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const state = useSubmit(
    useCallback(
      async ({ confirmation }) => {
        if (confirmation !== "DELETE") throw new FieldFault("confirmation", t.errors.codes.CONFIRMATION_INVALID);
        const { deleted } = unwrap(await api.DELETE("/api/v1/workspace/test-data"));
        void queries.invalidateQueries();
        onStarted(deleted ?? null);
        onClose();
      },
      [api, onClose, onStarted, queries, t],
    ),
  );
  return (
    <Dialog title={t.testData.delete} open onClose={onClose}>
      <Form state={state} label={t.testData.delete} kind="danger" secondary={<Button onPress={onClose}>{t.cancel}</Button>}>
        <p>{t.testData.deletes}</p>
        <p>{t.testData.keeps}</p>
        <TextField name="confirmation" label={t.settings.erasePhrase} autoComplete="off" isRequired />
      </Form>
    </Dialog>
  );
}

/** A deletion in the background. The audit log has its numbers when it has ended. */
function Progress({ since, onDeleted }: { since: string; onDeleted: (deleted: Deleted) => void }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  useQuery({
    queryKey: [mode, "audit-log", "test-data", since],
    queryFn: async () => {
      const query = { action: "test_data.delete", dateFrom: since, pageSize: 1 };
      const [entry] = unwrap(await api.GET("/api/v1/workspace/audit-log", { params: { query } })).data;
      if (entry) onDeleted((entry.after ?? {}) as Deleted);
      return entry ?? null;
    },
    refetchInterval: 3_000,
  });
  return <Done tone="info">{t.testData.processing}</Done>;
}

const counts = ["programs", "participants", "links", "promoCodes", "clicks", "conversions", "commissions", "payouts", "webhookDeliveries", "notificationLogs"] as const;

function Result({ deleted }: { deleted: Deleted }) {
  const { t, f } = useTexts();
  return (
    <Card title={t.testData.done}>
      <Done>{t.testData.doneHint}</Done>
      <div className={kit.text}>
        <Facts rows={counts.map((count): [string, string] => [t.testData.counts[count], f.number(deleted[count] ?? 0)])} amounts />
      </div>
    </Card>
  );
}
