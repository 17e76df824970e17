import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf, toneOf } from "../../app/data";
import { LinkButton, SearchField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, type Column, Page, Pages, Table, Tabs, usePage } from "../../kit/page";
import { type Program, rateOf } from "../data";
import { useTexts } from "../texts";

/** The programmes in which the partner takes part, and those that are open to everybody. */
export default function Programs() {
  const { t } = useTexts();
  const [show] = useParameter("show", "mine");
  const scope = show === "public" ? "public" : "mine";
  return (
    <Page title={t.programs.title}>
      <Tabs
        label={t.programs.title}
        tabs={[
          ["mine", t.programs.mine],
          ["public", t.programs.find],
        ]}
      />
      <div className={kit.filters}>
        <SearchField key={scope} label={t.programs.search} maxLength={100} />
      </div>
      <List scope={scope} />
    </Page>
  );
}

function List({ scope }: { scope: "mine" | "public" }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const [search] = useParameter("search");
  const query = useQuery({
    ...paged,
    queryKey: [mode, "programs", scope, search, page],
    queryFn: async () => {
      const parameters = { scope, ...(search && { search }), ...pageOf(page) };
      return { ...listOf(await api.GET("/api/v1/partner/programs", { params: { query: parameters } })), scope };
    },
  });
  const own: Column<Program>[] = [
    { name: t.programs.clicks, cell: ({ participation }) => f.number(participation?.clicks ?? 0), number: true },
    { name: t.programs.conversions, cell: ({ participation }) => f.number(participation?.conversions ?? 0), number: true },
    { name: t.programs.earned, cell: (row) => f.money(row.participation?.commissionCents ?? 0, row.currency), number: true },
  ];
  return (
    <Loaded query={query}>
      {({ data, total, capped, scope: loaded }) =>
        data.length === 0 ? (
          <Card>{search ? <Empty title={t.programs.noneFound} /> : <None scope={loaded} />}</Card>
        ) : (
          <>
            <Table
              caption={loaded === "mine" ? t.programs.mine : t.programs.find}
              stale={query.isPlaceholderData}
              rows={data}
              columns={[
                { name: t.programs.name, cell: (row) => <Link href={`/programs/${row.id}`}>{row.name}</Link>, lead: true },
                { name: t.programs.merchant, cell: (row) => row.merchantName },
                { name: t.programs.rate, cell: (row) => rateOf(row, t, f) },
                { name: t.programs.status, cell: (row) => <ProgramBadge program={row} /> },
                ...(loaded === "mine" ? own : []),
              ]}
            />
            <Pages total={total} capped={capped} />
          </>
        )
      }
    </Loaded>
  );
}

function None({ scope }: { scope: "mine" | "public" }) {
  const { t } = useTexts();
  if (scope === "public") return <Empty title={t.programs.nonePublic}>{t.programs.nonePublicHint}</Empty>;
  return (
    <Empty
      title={t.programs.none}
      action={
        <LinkButton kind="primary" href="/programs?show=public">
          {t.programs.find}
        </LinkButton>
      }
    >
      {t.programs.noneHint}
    </Empty>
  );
}

/** The state of the partner in a programme. The state of the programme, if the partner takes no part or it is not active. */
export function ProgramBadge({ program }: { program: Program }) {
  const { t } = useTexts();
  const { participation, status } = program;
  if (participation?.partnerConsent === "awaited") return <Badge tone="warn">{t.programs.invited}</Badge>;
  if (participation?.partnerConsent === "declined") return <Badge>{t.programs.declined}</Badge>;
  return (
    <>
      {participation?.status && <Badge tone={toneOf(participation.status)}>{t.status.participant[participation.status]}</Badge>}{" "}
      {status && (!participation || status !== "active") && <Badge tone={toneOf(status)}>{t.status.program[status]}</Badge>}
    </>
  );
}
