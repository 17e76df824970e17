import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas, toneOf } from "../../app/data";
import { Select } from "../../kit/choices";
import { LinkButton, SearchField } from "../../kit/controls";
import { Badge, Done, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage, useSort } from "../../kit/page";
import type { Outcome } from "../bulk";
import { useCan } from "../can";
import { ExportButton } from "../CsvButton";
import { ProgramFilter } from "../ProgramFilter";
import { useTexts } from "../texts";
import { BulkEdit } from "./BulkEdit";
import { useGroups } from "./data";

type Participant = Schemas["Participant"];

const statuses = ["approved", "pending", "suspended", "rejected"] as const;
const sorts = ["createdAt", "partnerName", "clicks", "conversions", "revenueCents", "commissionCents"] as const;

/** The filters in the address, as the API names them. Groups are those of one programme. */
function useFilters(programId: string) {
  const [chosen] = useParameter("status");
  const [search] = useParameter("search");
  const [groupId] = useParameter("group");
  const [tag] = useParameter("tag");
  const status = statuses.find((status) => status === chosen);
  return { ...(status && { status }), ...(search && { search }), ...(programId && groupId && { groupId }), ...(tag && { tag }) };
}

/** The partners of all programmes or of one. In one programme, the group and the tags of several can be changed. */
export function List({ programId }: { programId: string }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const sort = useSort(sorts);
  const filters = useFilters(programId);
  const [wanted] = useParameter("program");
  const [selected, setSelected] = useState<ReadonlySet<string>>(new Set());
  const [messages, setMessages] = useState<Outcome["failed"]>(new Map());
  const [done, setDone] = useState("");
  const request = { ...filters, ...(programId && { programId }), ...sort };
  const query = useQuery({
    ...paged,
    queryKey: [mode, "partners", "all", request, page],
    queryFn: async () => listOf(await api.GET("/api/v1/partners", { params: { query: { ...request, ...pageOf(page) } } })),
  });
  const canChange = can("BulkUpdateParticipants");
  const isOpen = ({ erasedAt }: Participant) => !erasedAt;
  return (
    <>
      <Filters programId={programId} />
      <div className={kit.cardHead}>
        <p className={kit.muted}>{canChange && !programId && t.partners.bulkHint}</p>
        {can("ExportPartners") && (
          <ExportButton address="/api/v1/partners/export" query={request} />
        )}
      </div>
      {done && (
        <Done key={done} tone={messages.size > 0 ? "warn" : "good"}>
          {done}
        </Done>
      )}
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {Object.keys(filters).length > 0 ? (
                <Empty title={t.partners.noneFiltered} action={<LinkButton href={wanted ? `/partners?program=${wanted}` : "/partners"}>{t.filter.clear}</LinkButton>} />
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
                {...(canChange && programId && { selection: { ids: selected, onChange: setSelected, name: (row: Participant) => row.partnerName, isSelectable: isOpen } })}
                columns={[
                  {
                    name: t.partners.name,
                    cell: (row) => (
                      <div>
                        <Link href={`/programs/${row.programId}/partners/${row.id}`}>{row.partnerName}</Link>
                        <p className={kit.hint}>{row.partnerEmail}</p>
                        {!programId && <p className={kit.hint}>{row.programName}</p>}
                        {messages.has(row.id) && <p className={kit.fault}>{messages.get(row.id)}</p>}
                      </div>
                    ),
                    lead: true,
                    sortBy: "partnerName",
                  },
                  { name: t.partners.joined, cell: (row) => row.createdAt && f.date(row.createdAt), sortBy: "createdAt" },
                  { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true, sortBy: "clicks" },
                  { name: t.activity.conversions, cell: (row) => f.number(row.conversions), number: true, sortBy: "conversions" },
                  { name: t.overview.revenue, cell: (row) => f.money(row.revenueCents, row.currency), number: true, sortBy: "revenueCents" },
                  { name: t.overview.commissions, cell: (row) => f.money(row.commissionCents, row.currency), number: true, sortBy: "commissionCents" },
                  {
                    name: t.partners.status,
                    cell: (row) => (
                      <div>
                        {row.status && <Badge tone={toneOf(row.status)}>{t.status.participant[row.status]}</Badge>}{" "}
                        {row.tags.map((tag) => (
                          <Badge key={tag}>{tag}</Badge>
                        ))}
                      </div>
                    ),
                  },
                ]}
              />
              {canChange && programId && (
                <BulkEdit
                  programId={programId}
                  rows={data.filter(isOpen)}
                  selected={selected}
                  onSelect={setSelected}
                  onDone={({ changed, failed }) => {
                    setMessages(failed);
                    setSelected(new Set(failed.keys()));
                    setDone([changed.length > 0 && t.partners.changed(f.number(changed.length)), failed.size > 0 && t.commissions.failed(f.number(failed.size))].filter(Boolean).join(" "));
                  }}
                />
              )}
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
    </>
  );
}

function Filters({ programId }: { programId: string }) {
  const { t } = useTexts();
  const groups = useGroups(programId).data ?? [];
  const [status, setStatus] = useParameter("status");
  const [group, setGroup] = useParameter("group");
  return (
    <div className={kit.filters}>
      <SearchField label={t.filter.search} maxLength={200} />
      <ProgramFilter />
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
      <SearchField parameter="tag" label={t.partners.tag} maxLength={50} />
    </div>
  );
}
