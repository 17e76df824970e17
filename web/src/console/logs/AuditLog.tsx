import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { useAddressWith, useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton, TextField } from "../../kit/controls";
import { Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { ExportButton } from "../CsvButton";
import { useMembers } from "../data";
import { restricted, SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";
import { EntryPanel } from "./EntryPanel";
import { useActionText } from "./words";

export type Entry = Schemas["AuditEntry"];

/** The filters in the address, as the API names them. */
function useFilters() {
  const { f } = useTexts();
  const [actor] = useParameter("actor");
  const [action] = useParameter("action");
  const [resourceType] = useParameter("type");
  const [resourceId] = useParameter("record");
  const [dateFrom] = useParameter("from");
  const [dateTo] = useParameter("to");
  return {
    ...(actor && { actor }),
    ...(action && { action }),
    ...(resourceType && { resourceType }),
    ...(resourceId && { resourceId }),
    ...(dateFrom && { dateFrom }),
    ...(dateTo && { dateTo }),
    ...((dateFrom || dateTo) && { timezone: f.timeZone }),
  };
}

/** Who changed what in the workspace, and when. */
function AuditLog() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const filters = useFilters();
  const actionText = useActionText();
  const addressOf = useAddressWith("open");
  const [open, setOpen] = useParameter("open");
  const query = useQuery({
    ...paged,
    queryKey: [mode, "audit-log", filters, page],
    queryFn: async () => listOf(await api.GET("/api/v1/workspace/audit-log", { params: { query: { ...filters, ...pageOf(page) } } })),
  });
  return (
    <SettingsPage
      title={t.logs.audit.title}
      about={t.logs.audit.about}
      actions={can("ExportAuditLog") && <ExportButton address="/api/v1/workspace/audit-log/export" query={filters} />}
    >
      <Filters isFiltered={Object.keys(filters).length > 0} />
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              <Empty title={t.logs.audit.none}>{t.logs.audit.noneHint}</Empty>
            </Card>
          ) : (
            <>
              <Table
                caption={t.logs.audit.title}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.logs.audit.what,
                    cell: (entry) => <Link href={addressOf(entry.id)}>{actionText(entry.action)}</Link>,
                    lead: true,
                  },
                  { name: t.logs.audit.who, cell: (entry) => <Actor entry={entry} /> },
                  { name: t.logs.audit.when, cell: (entry) => entry.at && f.time(entry.at), sorted: true },
                  { name: t.logs.audit.mode, cell: (entry) => t.logs.audit.modes[entry.mode ?? "both"] },
                ]}
              />
              <Pages total={total} capped={capped} />
              {open && <EntryPanel id={open} entry={data.find(({ id }) => id === open)} onClose={() => setOpen("")} />}
            </>
          )
        }
      </Loaded>
    </SettingsPage>
  );
}

export default restricted("ListAuditLog", AuditLog);

/** The name of the actor, as a text. */
export function Actor({ entry: { actor, actorName } }: { entry: Entry }) {
  const { t } = useTexts();
  if (actor === "system") return t.logs.audit.system;
  return actorName ?? t.logs.audit.unknown;
}

/** The kinds of records that the log has. */
const types = [
  ...(["api_key", "buyer_erasure", "commission", "conversion", "fraud_event", "group", "ledger_entry", "link", "member", "member_invite"] as const),
  ...(["participant", "participant_invite", "payout", "payout_batch", "processor_connection", "program", "promo_code", "refund"] as const),
  ...(["service_token", "webhook", "workspace"] as const),
];

function Filters({ isFiltered }: { isFiltered: boolean }) {
  const { t, f } = useTexts();
  const [actor, setActor] = useParameter("actor");
  const [action, setAction] = useParameter("action");
  const [type, setType] = useParameter("type");
  const [record, setRecord] = useParameter("record");
  const [from, setFrom] = useParameter("from");
  const [to, setTo] = useParameter("to");
  const actionText = useActionText();
  const { data: members = [] } = useMembers();
  const actors: [string, string][] = [["", t.filter.all], ...members.map(({ id, name }): [string, string] => [id, name]), ["system", t.logs.audit.system]];
  if (actor && !actors.some(([id]) => id === actor)) actors.push([actor, t.logs.audit.otherActor]);
  const kinds = types.map((type): [string, string] => [type, t.logs.audit.nouns[type]]).sort(([, a], [, b]) => a.localeCompare(b, f.language));
  return (
    <div className={kit.filters}>
      <Select label={t.logs.audit.who} options={actors} value={actor} onChange={(key) => setActor(String(key))} />
      <Select label={t.logs.audit.record} options={[["", t.filter.all], ...kinds]} value={type} onChange={(key) => setType(String(key))} />
      <TextField type="date" label={t.filter.from} value={from} onChange={setFrom} />
      <TextField type="date" label={t.filter.to} value={to} onChange={setTo} />
      {action && <Button onPress={() => setAction("")}>{t.logs.audit.without(actionText(action))}</Button>}
      {record && <Button onPress={() => setRecord("")}>{t.logs.audit.allRecords}</Button>}
      {isFiltered && <LinkButton href="/settings/audit-log">{t.filter.clear}</LinkButton>}
    </div>
  );
}
