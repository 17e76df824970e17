import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";
import { useRouter } from "wouter";

import { useAddressWith, useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton, SearchField, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Empty, Loaded, type Tone } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Pages, Table, usePage } from "../../kit/page";
import { liveInterval } from "../data";
import { restricted, SettingsPage } from "../settings/SettingsPage";
import { useTexts } from "../texts";

type Mail = Schemas["NotificationLogEntry"];
const statuses = ["delivered", "redirected", "suppressed"] as const;
const tones: Record<(typeof statuses)[number], Tone> = { delivered: "good", redirected: "info", suppressed: "warn" };

/** The mails that test mode causes, and the account mail of the members. The log is a part of test mode. */
function MailLog() {
  const { mode } = useApp();
  const { t } = useTexts();
  const { base } = useRouter();
  return (
    <SettingsPage title={t.logs.mail.title} about={t.logs.mail.about}>
      {mode === "live" ? (
        <Card>
          <Empty
            title={t.logs.mail.onlyTest}
            action={<Button onPress={() => location.assign(`${base}/test/settings/mail-log`)}>{t.nav.toTest}</Button>}
          >
            {t.logs.mail.onlyTestHint}
          </Empty>
        </Card>
      ) : (
        <Log />
      )}
    </SettingsPage>
  );
}

export default restricted("ListNotificationLog", MailLog);

/** The filters in the address, as the API names them. */
function useFilters() {
  const { f } = useTexts();
  const [chosen] = useParameter("status");
  const [recipient] = useParameter("recipient");
  const [type] = useParameter("type");
  const [from] = useParameter("from");
  const [to] = useParameter("to");
  const status = statuses.find((status) => status === chosen);
  return {
    ...(status && { status }),
    ...(recipient && { recipient }),
    ...(type && { type }),
    ...(from && { from }),
    ...(to && { to }),
    ...((from || to) && { timezone: f.timeZone }),
  };
}

function Log() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const filters = useFilters();
  const addressOf = useAddressWith("open");
  const [open, setOpen] = useParameter("open");
  const isFiltered = Object.keys(filters).length > 0;
  const query = useQuery({
    ...paged,
    queryKey: [mode, "mail-log", filters, page],
    queryFn: async () => listOf(await api.GET("/api/v1/workspace/notification-log", { params: { query: { ...filters, ...pageOf(page) } } })),
    refetchInterval: liveInterval,
  });
  return (
    <>
      <Filters />
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {isFiltered ? (
                <Empty title={t.logs.mail.noneFiltered} action={<LinkButton href="/settings/mail-log">{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.logs.mail.none}>{t.logs.mail.noneHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.logs.mail.title}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.logs.mail.subject,
                    cell: (mail) => <Link href={addressOf(mail.id)}>{mail.subject ?? mail.type}</Link>,
                    lead: true,
                  },
                  { name: t.logs.mail.recipient, cell: (mail) => mail.recipient },
                  { name: t.logs.mail.created, cell: (mail) => mail.createdAt && f.time(mail.createdAt), sorted: true },
                  { name: t.logs.mail.status, cell: (mail) => <Status mail={mail} /> },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open && <MailPanel id={open} onClose={() => setOpen("")} />}
    </>
  );
}

function Filters() {
  const { t } = useTexts();
  const [status, setStatus] = useParameter("status");
  const [type, setType] = useParameter("type");
  const [from, setFrom] = useParameter("from");
  const [to, setTo] = useParameter("to");
  return (
    <div className={kit.filters}>
      <Select
        label={t.logs.mail.status}
        options={[["", t.filter.all], ...statuses.map((status): [string, string] => [status, t.logs.mail.statuses[status]])]}
        value={status}
        onChange={(key) => setStatus(String(key))}
      />
      <SearchField parameter="recipient" label={t.logs.mail.recipient} />
      <TextField type="date" label={t.filter.from} value={from} onChange={setFrom} />
      <TextField type="date" label={t.filter.to} value={to} onChange={setTo} />
      {type && <Button onPress={() => setType("")}>{t.logs.mail.allTypes(type)}</Button>}
    </div>
  );
}

function Status({ mail: { status } }: { mail: Pick<Mail, "status"> }) {
  const { t } = useTexts();
  return status && <Badge tone={tones[status]}>{t.logs.mail.statuses[status]}</Badge>;
}

/** A mail at the side of the list. Its text part is shown: the HTML part contains the same, with names that others have chosen. */
function MailPanel({ id, onClose }: { id: string; onClose: () => void }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "mail-log", "one", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/workspace/notification-log/{entryId}", { params: { path: { entryId: id } } })),
  });
  const reasons: Record<string, string> = t.logs.mail.reasons;
  return (
    <Dialog title={query.data?.subject ?? query.data?.type ?? t.logs.mail.one} open side onClose={onClose}>
      <Loaded query={query}>
        {(mail) => (
          <>
            <Card title={t.logs.mail.status} action={<Status mail={mail} />}>
              {mail.reason && <p>{reasons[mail.reason] ?? mail.reason}</p>}
              <Facts
                rows={[
                  [t.logs.mail.recipient, mail.recipient],
                  [t.logs.mail.redirectedTo, mail.redirectedTo],
                  [t.logs.mail.sender, mail.from],
                  [t.logs.mail.created, mail.createdAt && f.time(mail.createdAt)],
                  [t.logs.mail.type, <Link href={`/settings/mail-log?type=${encodeURIComponent(mail.type)}`} className={kit.code}>{mail.type}</Link>],
                ]}
              />
            </Card>
            <Card title={t.logs.mail.content}>
              {mail.text ? <p className={kit.text}>{mail.text}</p> : <p className={kit.muted}>{t.logs.mail.noContent}</p>}
            </Card>
          </>
        )}
      </Loaded>
    </Dialog>
  );
}
