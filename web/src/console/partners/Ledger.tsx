import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";
import { Link } from "react-aria-components/Link";

import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf } from "../../app/data";
import { exponent, minorUnits } from "../../i18n/format";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { Card, Pages, Stat, Stats, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { useReload } from "./data";
import type { Props } from "./PartnerDetail";

/** All entries that make up what the partner is owed, newest first. */
export function Ledger({ participant, program }: Props) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const [open, setOpen] = useState(false);
  const path = { programId: program.id, participantId: participant.id };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "partners", program.id, "ledger", participant.id, page],
    queryFn: async () => listOf(await api.GET("/api/v1/programs/{programId}/partners/{participantId}/ledger", { params: { path, query: pageOf(page) } })),
  });
  return (
    <Loaded query={query}>
      {({ data, balances, total, capped }) => (
        <>
          <Card
            title={t.partners.balance}
            action={
              can("CreateLedgerEntry") && (
                <Button small onPress={() => setOpen(true)}>
                  {t.partners.addEntry}
                </Button>
              )
            }
          >
            <Stats>
              {balances.map(({ currency, balanceCents }) => (
                <Stat key={currency} name={balanceCents < 0 ? t.partners.owes : t.partners.owed} value={f.money(Math.abs(balanceCents), currency)} />
              ))}
              {balances.length === 0 && <Stat name={t.partners.owed} value={f.money(0, program.currency)} />}
            </Stats>
          </Card>
          {data.length === 0 ? (
            <Card>
              <Empty title={t.partners.noEntries}>{t.partners.noEntriesHint}</Empty>
            </Card>
          ) : (
            <Table
              caption={t.partners.tabs.ledger}
              stale={query.isPlaceholderData}
              rows={data}
              columns={[
                { name: t.partners.date, cell: (row) => row.createdAt && f.time(row.createdAt), lead: true, sorted: true },
                {
                  name: t.partners.entry,
                  cell: (row) => {
                    const text = row.type && t.partners.entries[row.type];
                    const address = row.commissionId ? `/commissions/${row.commissionId}` : row.payoutId ? `/payouts/${row.payoutId}` : null;
                    return address ? <Link href={address}>{text}</Link> : text;
                  },
                },
                { name: t.partners.reason, cell: (row) => row.reason },
                { name: t.partners.amount, cell: (row) => f.money(row.amountCents, row.currency), number: true },
              ]}
            />
          )}
          <Pages total={total} capped={capped} />
          {open && <AddEntry participant={participant} program={program} onClose={() => setOpen(false)} />}
        </>
      )}
    </Loaded>
  );
}

/** Adds a bonus or a correction. The next payout includes it. */
function AddEntry({ participant, program, onClose }: Props & { onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const state = useSubmit(
    useCallback(
      async ({ type = "bonus", amountCents: amount = "", reason = "" }) => {
        const amountCents = minorUnits(amount, exponent(program.currency));
        if (amountCents === null) throw new FieldFault("amountCents", t.form.amountWrong);
        const params = { path: { programId: program.id, participantId: participant.id } };
        const body = { type: type === "bonus" ? ("bonus" as const) : ("adjustment" as const), amountCents, reason };
        unwrap(await api.POST("/api/v1/programs/{programId}/partners/{participantId}/ledger", { params, body }));
        await reload();
        onClose();
      },
      [api, onClose, participant.id, program, reload, t],
    ),
  );
  return (
    <FormDialog title={t.partners.addEntry} state={state} label={t.partners.addEntry} onClose={onClose}>
      <p>{t.partners.addEntryHint(participant.partnerName)}</p>
      <Select
        name="type"
        label={t.partners.entry}
        options={[
          ["bonus", t.partners.entries.bonus],
          ["adjustment", t.partners.entries.adjustment],
        ]}
        defaultValue="bonus"
      />
      <TextField name="amountCents" label={t.partners.amountIn(program.currency)} hint={t.partners.amountHint} isRequired />
      <TextField name="reason" label={t.partners.reason} hint={t.partners.entryReasonHint} lines maxLength={500} isRequired />
    </FormDialog>
  );
}
