import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { Choice } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Loaded, Notice } from "../../kit/feedback";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useTexts } from "../texts";
import { restricted, SettingsPage } from "./SettingsPage";

/** Personal data: the erasure of buyers, and what stays for how long. */
function Privacy() {
  const { t } = useTexts();
  const [erasure, setErasure] = useParameter("erasure");
  const [asking, setAsking] = useState(false);
  return (
    <SettingsPage title={t.privacyPage.title} about={t.privacyPage.about}>
      {erasure && <Progress id={erasure} />}
      <Card
        title={t.privacyPage.eraseTitle}
        action={
          <Button kind="danger" onPress={() => setAsking(true)}>
            {t.privacyPage.erase}
          </Button>
        }
      >
        <p>{t.privacyPage.eraseHint}</p>
        <p className={kit.muted}>{t.privacyPage.first}</p>
        <p>
          <Link href="/settings/audit-log?type=buyer_erasure">{t.privacyPage.earlier}</Link>
        </p>
      </Card>
      <Card title={t.privacyPage.othersTitle}>
        <ul className={kit.rules}>
          <li>
            {t.privacyPage.partner} <Link href="/partners">{t.areas.partners}</Link>
          </li>
          <li>
            {t.privacyPage.workspace} <Link href="/settings/account?show=privacy">{t.profile.account}</Link>
          </li>
        </ul>
      </Card>
      <Card title={t.privacyPage.retentionTitle}>
        <Facts rows={t.privacyPage.retention.map(([data, time]): [string, string] => [data ?? "", time ?? ""])} />
      </Card>
      {asking && <EraseDialog onStarted={setErasure} onClose={() => setAsking(false)} />}
    </SettingsPage>
  );
}

export default restricted("EraseBuyer", Privacy);

/** The state of an erasure, until it has ended. */
function Progress({ id }: { id: string }) {
  const { api } = useApp();
  const { t } = useTexts();
  const query = useQuery({
    queryKey: ["buyer-erasure", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/merchant/gdpr/buyer-erasure/{operationId}", { params: { path: { operationId: id } } })),
    refetchInterval: ({ state }) => (state.data?.status === "processing" ? 2_000 : false),
  });
  return (
    <Card title={t.privacyPage.progress}>
      <Loaded query={query}>
        {({ status }) => status && <Notice tone={status === "done" ? "good" : status === "failed" ? "bad" : "info"}>{t.privacyPage.statuses[status]}</Notice>}
      </Loaded>
      <Facts rows={[[t.privacyPage.reference, <span className={kit.code}>{id}</span>]]} />
    </Card>
  );
}

const identities = ["email", "customerId", "externalTransactionId", "processorCustomerId"] as const;

function EraseDialog({ onStarted, onClose }: { onStarted: (id: string) => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const [kind, setKind] = useState<(typeof identities)[number]>("email");
  const state = useSubmit(
    useCallback(
      async ({ confirmation, ...values }) => {
        const params = { header: { "Idempotency-Key": crypto.randomUUID() } };
        const body = { confirmation, buyer: { [kind]: values[`buyer.${kind}`] ?? "" } };
        const { operationId } = unwrap(await api.POST("/api/v1/merchant/gdpr/buyer-erasure", { params, body }));
        onStarted(operationId);
        onClose();
      },
      [api, kind, onClose, onStarted],
    ),
  );
  return (
    <FormDialog title={t.privacyPage.eraseTitle} state={state} label={t.privacyPage.erase} kind="danger" onClose={onClose}>
      <p>{t.privacyPage.eraseEffect}</p>
      <Choice
        label={t.privacyPage.by}
        options={identities.map((kind): [string, string, string] => [kind, t.privacyPage.identities[kind].name, t.privacyPage.identities[kind].hint])}
        value={kind}
        onChange={(value) => setKind(identities.find((identity) => identity === value) ?? "email")}
      />
      <TextField
        key={kind}
        name={`buyer.${kind}`}
        type={kind === "email" ? "email" : "text"}
        label={t.privacyPage.identities[kind].name}
        autoComplete="off"
        maxLength={320}
        isRequired
      />
      <TextField name="confirmation" label={t.settings.erasePhrase} autoComplete="off" isRequired />
    </FormDialog>
  );
}
