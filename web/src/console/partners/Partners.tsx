import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas, toneOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { LinkButton, TextField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, Tabs, usePage, useSort } from "../../kit/page";
import { useCan } from "../can";
import { usePrograms } from "../data";
import { useTexts } from "../texts";
import { Applications } from "./Applications";
import { AddDialog } from "./AddDialog";
import { useGroups } from "./data";
import { Invitations } from "./Invitations";

export type Program = Schemas["Program"];

const statuses = ["approved", "suspended", "rejected"] as const;
const sorts = ["createdAt", "partnerName", "clicks", "conversions", "revenueCents", "commissionCents"] as const;

/** The partners of a programme, the applications to it, and the open invitations. */
export default function Partners() {
  const { t } = useTexts();
  const can = useCan();
  const programs = usePrograms();
  const [wanted, setProgram] = useParameter("program");
  const [show] = useParameter("show", "partners");
  const program = programs.data?.find(({ id }) => id === wanted) ?? programs.data?.[0];
  return (
    <Page title={t.partners.title} about={t.partners.about} actions={program && can("InviteParticipant") && <AddDialog program={program} />}>
      <Loaded query={programs}>
        {(programs) =>
          program ? (
            <>
              <Tabs
                label={t.partners.title}
                keep={["program"]}
                tabs={[
                  ["partners", t.partners.tabs.partners],
                  ["applications", t.partners.tabs.applications],
                  ["invitations", t.partners.tabs.invitations],
                ]}
              />
              {programs.length > 1 && (
                <div className={kit.filters}>
                  <Select
                    label={t.filter.program}
                    options={programs.map(({ id, name }): [string, string] => [id, name])}
                    value={program.id}
                    onChange={(key) => setProgram(String(key))}
                  />
                </div>
              )}
              {show === "applications" ? <Applications key={program.id} program={program} /> : show === "invitations" ? <Invitations program={program} /> : <List program={program} />}
            </>
          ) : (
            <Card>
              <Empty title={t.partners.noProgram} action={<LinkButton href="/programs/new">{t.partners.createProgram}</LinkButton>}>
                {t.partners.noProgramHint}
              </Empty>
            </Card>
          )
        }
      </Loaded>
    </Page>
  );
}

function List({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const sort = useSort(sorts);
  const groups = useGroups(program.id).data ?? [];
  const [status] = useParameter("status");
  const [search] = useParameter("search");
  const [groupId] = useParameter("group");
  const [tag] = useParameter("tag");
  const known = statuses.find((known) => known === status);
  const filters = { ...(known && { status: known }), ...(search && { search }), ...(groupId && { groupId }), ...(tag && { tag }) };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "partners", program.id, filters, sort, page],
    queryFn: async () => {
      const params = { path: { programId: program.id }, query: { ...filters, ...sort, ...pageOf(page) } };
      return listOf(await api.GET("/api/v1/programs/{programId}/partners", { params }));
    },
  });
  return (
    <>
      <Filters groups={groups} />
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {Object.keys(filters).length > 0 ? (
                <Empty title={t.partners.noneFiltered} action={<LinkButton href={`/partners?program=${program.id}`}>{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.partners.none}>{t.partners.noneHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.partners.title}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.partners.name,
                    cell: (row) => (
                      <>
                        <Link href={`/programs/${program.id}/partners/${row.id}`}>{row.partnerName}</Link>
                        <p className={kit.hint}>{row.partnerEmail}</p>
                      </>
                    ),
                    lead: true,
                    sortBy: "partnerName",
                  },
                  { name: t.partners.joined, cell: (row) => row.createdAt && f.date(row.createdAt), sortBy: "createdAt" },
                  { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true, sortBy: "clicks" },
                  { name: t.activity.conversions, cell: (row) => f.number(row.conversions), number: true, sortBy: "conversions" },
                  { name: t.overview.revenue, cell: (row) => f.money(row.revenueCents, program.currency), number: true, sortBy: "revenueCents" },
                  { name: t.overview.commissions, cell: (row) => f.money(row.commissionCents, program.currency), number: true, sortBy: "commissionCents" },
                  {
                    name: t.partners.status,
                    cell: (row) => (
                      <>
                        {row.status && <Badge tone={toneOf(row.status)}>{t.status.participant[row.status]}</Badge>}{" "}
                        {row.tags.map((tag) => (
                          <Badge key={tag}>{tag}</Badge>
                        ))}
                      </>
                    ),
                  },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Filters({ groups }: { groups: Schemas["Group"][] }) {
  const { t } = useTexts();
  const [status, setStatus] = useParameter("status");
  const [search, setSearch] = useParameter("search");
  const [group, setGroup] = useParameter("group");
  const [tag, setTag] = useParameter("tag");
  return (
    <div className={kit.filters}>
      <TextField type="search" label={t.filter.search} value={search} onChange={setSearch} />
      <Select
        label={t.partners.status}
        options={[["", t.filter.all], ...statuses.map((status): [string, string] => [status, t.status.participant[status]])]}
        value={status}
        onChange={(key) => setStatus(String(key))}
      />
      {groups.length > 0 && (
        <Select
          label={t.partners.group}
          options={[["", t.filter.all], ...groups.map(({ id, name }): [string, string] => [id, name])]}
          value={group}
          onChange={(key) => setGroup(String(key))}
        />
      )}
      <TextField label={t.partners.tag} value={tag} onChange={setTag} />
    </div>
  );
}
