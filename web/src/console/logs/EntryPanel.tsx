import type { ReactNode } from "react";
import { Link } from "react-aria-components/Link";

import { Dialog } from "../../kit/dialog";
import { Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Table } from "../../kit/page";
import { useTexts } from "../texts";
import { Actor, type Entry } from "./AuditLog";
import { type Change, changesOf } from "./changes";
import { useActionText } from "./words";

/** An entry of the audit log with the changed values, at the side of the list. */
export function EntryPanel({ id, entry, onClose }: { id: string; entry: Entry | undefined; onClose: () => void }) {
  const { t, f } = useTexts();
  const actionText = useActionText();
  if (!entry) {
    return (
      <Dialog title={t.logs.audit.entry} open side onClose={onClose}>
        <Notice>{t.logs.audit.otherPage(id)}</Notice>
      </Dialog>
    );
  }
  const { actor, at, action, resourceType, resourceId, ipPrefix, requestId, mode } = entry;
  const page = pageOf(entry);
  const nouns: Record<string, string> = t.logs.audit.nouns;
  const only = (name: string, value: string) => `/settings/audit-log?${name}=${encodeURIComponent(value)}`;
  return (
    <Dialog title={actionText(action)} open side onClose={onClose}>
      <Card>
        <Facts
          rows={[
            [t.logs.audit.who, <Link href={only("actor", actor)}><Actor entry={entry} /></Link>],
            [t.logs.audit.when, at && f.time(at)],
            [t.logs.audit.actionName, <Link href={only("action", action)} className={kit.code}>{action}</Link>],
            [t.logs.audit.record, page ? <Link href={page}>{nouns[resourceType] ?? resourceType}</Link> : (nouns[resourceType] ?? resourceType)],
            [t.logs.audit.recordId, <Link href={only("record", resourceId)} className={kit.code}>{resourceId}</Link>],
            [t.logs.audit.mode, t.logs.audit.modes[mode ?? "both"]],
            [t.logs.audit.network, ipPrefix],
            [t.logs.audit.request, requestId && <span className={kit.code}>{requestId}</span>],
          ]}
        />
      </Card>
      <Changes changes={changesOf(entry.before, entry.after)} />
    </Dialog>
  );
}

function Changes({ changes }: { changes: Change[] }) {
  const { t } = useTexts();
  const value = useValue();
  if (changes.length === 0) return <p className={kit.muted}>{t.logs.audit.noValues}</p>;
  return (
    <Table
      caption={t.logs.audit.values}
      rows={changes.map((change) => ({ ...change, id: change.field }))}
      columns={[
        { name: t.logs.audit.field, cell: ({ field }) => <span className={kit.code}>{field}</span>, lead: true },
        { name: t.logs.audit.before, cell: ({ before }) => value(before) },
        { name: t.logs.audit.after, cell: ({ after }) => value(after) },
      ]}
    />
  );
}

/** Returns a function that shows a value of a field as a text. */
function useValue(): (value: unknown) => ReactNode {
  const { t, f } = useTexts();
  const textOf = (value: unknown): string => {
    if (value === null || value === undefined || value === "") return "–";
    if (typeof value === "boolean") return value ? t.logs.audit.yes : t.logs.audit.no;
    if (typeof value === "number") return f.number(value);
    if (typeof value === "string") return /^\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)$/.test(value) ? f.time(value) : value;
    if (Array.isArray(value)) return value.length === 0 ? "–" : value.map(textOf).join(", ");
    return JSON.stringify(value);
  };
  return (value) => <span className={kit.text}>{textOf(value)}</span>;
}

/** The pages about records, by the kinds of the records. */
const pages: Record<string, (id: string) => string> = {
  commission: (id) => `/commissions/${id}`,
  conversion: (id) => `/conversions/${id}`,
  payout: (id) => `/payouts/${id}`,
  payout_batch: (id) => `/payouts/batches/${id}`,
  program: (id) => `/programs/${id}`,
  webhook: (id) => `/webhooks/${id}`,
  api_key: () => "/settings/api-keys",
  service_token: () => "/settings/service-tokens",
  member: () => "/settings/members",
  member_invite: () => "/settings/members?show=invitations",
  processor_connection: () => "/settings/tracking?show=stripe",
  buyer_erasure: (id) => `/settings/privacy?erasure=${id}`,
};

/** The page about the record of an entry. Null if there is none, or if the record was deleted. */
function pageOf({ action, resourceType, resourceId }: Entry): string | null {
  return (!action.endsWith(".delete") && pages[resourceType]?.(resourceId)) || null;
}
