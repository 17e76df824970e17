import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { type Tributary, unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Done, Empty } from "../../kit/feedback";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { Card, Facts } from "../../kit/page";
import { useTexts } from "../texts";
import { restricted, SettingsPage } from "./SettingsPage";

type Deleted = Schemas["DeletedTestData"];

/** The deletion of everything in test mode. */
function TestData() {
  const { mode } = useApp();
  const { t } = useTexts();
  const [asking, setAsking] = useState(false);
  const [deleted, setDeleted] = useState<Deleted | null>(null);
  const [before, setBefore] = useState<string | null>(null);
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
      {before !== null && !deleted && <Progress before={before} onDeleted={setDeleted} />}
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
          onStarted={(before, result) => {
            setBefore(before);
            setDeleted(result);
          }}
          onClose={() => setAsking(false)}
        />
      )}
    </SettingsPage>
  );
}

export default restricted("DeleteTestData", TestData);

function DeleteDialog({ onStarted, onClose }: { onStarted: (before: string, deleted: Deleted | null) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const state = useSubmit(
    useCallback(
      async ({ confirmation }) => {
        if (confirmation !== "DELETE") throw new FieldFault("confirmation", t.errors.codes.CONFIRMATION_INVALID);
        const before = await lastDeletion(api);
        const { deleted } = unwrap(await api.DELETE("/api/v1/workspace/test-data"));
        void queries.invalidateQueries();
        onStarted(before?.id ?? "", deleted ?? null);
        onClose();
      },
      [api, onClose, onStarted, queries, t],
    ),
  );
  return (
    <FormDialog title={t.testData.delete} state={state} label={t.testData.delete} kind="danger" onClose={onClose}>
      <p>{t.testData.deletes}</p>
      <p>{t.testData.keeps}</p>
      <TextField name="confirmation" label={t.settings.erasePhrase} autoComplete="off" isRequired />
    </FormDialog>
  );
}

/** The entry of the audit log about the last deletion that has ended. */
async function lastDeletion(api: Tributary): Promise<Schemas["AuditEntry"] | undefined> {
  const query = { action: "test_data.delete", pageSize: 1 };
  return unwrap(await api.GET("/api/v1/workspace/audit-log", { params: { query } })).data[0];
}

/** A deletion in the background. The audit log has an entry with its numbers when it has ended; before is the id of the entry before. */
function Progress({ before, onDeleted }: { before: string; onDeleted: (deleted: Deleted) => void }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  useQuery({
    queryKey: [mode, "audit-log", "test-data", before],
    queryFn: async () => {
      const entry = await lastDeletion(api);
      if (entry && entry.id !== before) onDeleted((entry.after ?? {}) as unknown as Deleted);
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
      <Facts rows={counts.map((count): [string, string] => [t.testData.counts[count], f.number(deleted[count] ?? 0)])} amounts />
    </Card>
  );
}
