import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Empty, Failure, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, usePage } from "../../kit/page";
import { saveFile } from "../../kit/sharing";
import { usePrograms } from "../data";
import { useTexts } from "../texts";
import { CommissionBadge } from "./CommissionBadge";

const statuses = ["pending", "approved", "paid", "rejected", "refunded"] as const;
type Status = (typeof statuses)[number];

export default function Commissions() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const [status, setStatus] = useParameter("status");
  const [programId, setProgram] = useParameter("program");
  const [dateFrom, setFrom] = useParameter("from");
  const [dateTo, setTo] = useParameter("to");
  const programs = usePrograms();
  const filters = {
    ...(statuses.includes(status as Status) && { status: status as Status }),
    ...(programId && { programId }),
    ...(dateFrom && { dateFrom }),
    ...(dateTo && { dateTo }),
  };
  const filtered = Object.keys(filters).length > 0;
  const query = useQuery({
    ...paged,
    queryKey: [mode, "commissions", filters, page],
    queryFn: async () => {
      const parameters = { ...filters, timezone: f.timeZone, ...pageOf(page) };
      return listOf(await api.GET("/api/v1/partner/commissions", { params: { query: parameters } }));
    },
  });
  const csv = useMutation({
    mutationFn: async () => {
      const query = { ...filters, timezone: f.timeZone };
      const file = unwrap(await api.GET("/api/v1/partner/commissions/export", { params: { query }, parseAs: "blob" }));
      saveFile(file, "commissions.csv");
    },
  });
  return (
    <Page
      title={t.commissions.title}
      about={t.commissions.about}
      actions={
        <>
          <LinkButton href="/commissions/lookup">{t.commissions.lookup}</LinkButton>
          {!!query.data?.total && (
            <Button isPending={csv.isPending} onPress={() => csv.mutate()}>
              {t.commissions.csv}
            </Button>
          )}
        </>
      }
    >
      {csv.isError && <Failure error={csv.error} retry={() => csv.mutate()} />}
      <div className={kit.filters}>
        <Select
          label={t.commissions.status}
          options={[["", t.commissions.all], ...statuses.map((status): [string, string] => [status, t.status.commission[status]])]}
          value={status}
          onChange={(key) => setStatus(String(key))}
        />
        {programs.data && programs.data.length > 1 && (
          <Select
            label={t.commissions.program}
            options={[["", t.commissions.all], ...programs.data.map(({ id, name }): [string, string] => [id, name])]}
            value={programId}
            onChange={(key) => setProgram(String(key))}
          />
        )}
        <TextField type="date" label={t.commissions.from} value={dateFrom} onChange={setFrom} />
        <TextField type="date" label={t.commissions.to} value={dateTo} onChange={setTo} />
      </div>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {filtered ? (
                <Empty title={t.commissions.noneFiltered} action={<LinkButton href="/commissions">{t.commissions.clear}</LinkButton>} />
              ) : (
                <Empty title={t.commissions.none} action={<LinkButton href="/links">{t.home.shareLink}</LinkButton>}>
                  {t.commissions.noneHint}
                </Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.commissions.title}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.commissions.date,
                    cell: (row) => <Link href={`/commissions/${row.id}`}>{row.createdAt && f.time(row.createdAt)}</Link>,
                    lead: true,
                    sorted: true,
                  },
                  { name: t.commissions.program, cell: (row) => row.programName },
                  { name: t.commissions.sale, cell: (row) => f.money(row.saleAmountCents, row.saleCurrency), number: true },
                  { name: t.commissions.amount, cell: (row) => f.money(row.amountCents, row.currency), number: true },
                  { name: t.commissions.status, cell: (row) => <CommissionBadge commission={row} /> },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </Page>
  );
}
