import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done, Empty, Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { type Program, useReload } from "./data";

interface Text {
  title: string;
  body: string;
}

/** The texts to all partners of a programme, and the form for a new one. */
export function Announcements({ program }: { program: Program }) {
  const { t } = useTexts();
  const can = useCan();
  return (
    <>
      {can("CreateAnnouncement") ? <Write program={program} /> : <p className={kit.muted}>{t.announcements.forbidden}</p>}
      <Sent program={program} />
    </>
  );
}

/** The form for a text. It is shown before it is sent. */
function Write({ program }: { program: Program }) {
  const { t } = useTexts();
  const [draft, setDraft] = useState<Text | null>(null);
  const [sent, setSent] = useState("");
  const [form, setForm] = useState(0);
  const state = useSubmit(
    useCallback(async ({ title = "", body = "" }) => {
      setSent("");
      setDraft({ title: title.trim(), body: body.trim() });
    }, []),
  );
  return (
    <Card title={t.announcements.title}>
      <p className={kit.muted}>{t.announcements.about}</p>
      {sent && <Done key={sent}>{sent}</Done>}
      {program.status === "active" ? (
        <Form key={form} state={state} label={t.announcements.preview}>
          <TextField name="title" label={t.announcements.subject} maxLength={120} minLength={1} isRequired />
          <TextField name="body" label={t.announcements.text} hint={t.announcements.textHint} lines maxLength={5000} minLength={1} isRequired />
        </Form>
      ) : (
        <Notice>{t.announcements.notActive}</Notice>
      )}
      {draft && (
        <Send
          program={program}
          draft={draft}
          onSent={(text) => {
            setSent(text);
            setDraft(null);
            setForm(form + 1);
          }}
          onClose={() => setDraft(null)}
        />
      )}
    </Card>
  );
}

function Send({ program, draft, onSent, onClose }: { program: Program; draft: Text; onSent: (text: string) => void; onClose: () => void }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const partners = useQuery({
    queryKey: [mode, "programs", program.id, "recipients"],
    queryFn: async () => {
      const params = { path: { programId: program.id }, query: { status: "approved" as const, pageSize: 1 } };
      return unwrap(await api.GET("/api/v1/programs/{programId}/partners", { params })).total;
    },
  });
  const state = useSubmit(
    useCallback(async () => {
      const { recipients } = unwrap(await api.POST("/api/v1/programs/{programId}/announcements", { params: { path: { programId: program.id } }, body: draft }));
      await reload();
      onSent(t.announcements.sent(f.number(recipients ?? 0)));
    }, [api, draft, f, onSent, program.id, reload, t]),
  );
  return (
    <Dialog title={t.announcements.sendTitle} open onClose={onClose}>
      {partners.data !== undefined && <p>{t.announcements.recipients(f.number(partners.data))}</p>}
      <div className={kit.scroll} role="region" aria-label={t.announcements.preview} tabIndex={0}>
        <strong>{draft.title}</strong>
        <p className={kit.text}>{draft.body}</p>
      </div>
      <Form state={state} label={t.announcements.send} secondary={<Button onPress={onClose}>{t.announcements.change}</Button>} />
    </Dialog>
  );
}

/** The texts of the last 180 days, the newest first. */
function Sent({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const [open, setOpen] = useState<Schemas["Announcement"] | null>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "programs", program.id, "announcements", page],
    queryFn: async () => listOf(await api.GET("/api/v1/programs/{programId}/announcements", { params: { path: { programId: program.id }, query: pageOf(page) } })),
  });
  return (
    <Card title={t.announcements.list}>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Empty title={t.announcements.none}>{t.announcements.noneHint}</Empty>
          ) : (
            <>
              <Table
                caption={t.announcements.list}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.announcements.subject,
                    cell: (row) => (
                      <Button kind="plain" small onPress={() => setOpen(row)}>
                        {row.title}
                      </Button>
                    ),
                    lead: true,
                  },
                  { name: t.announcements.sentAt, cell: (row) => row.createdAt && f.time(row.createdAt), sorted: true },
                  { name: t.announcements.by, cell: (row) => row.createdByName ?? t.commissions.formerMember },
                  { name: t.announcements.got, cell: (row) => (row.recipients === null ? "–" : f.number(row.recipients)), number: true },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open && (
        <Dialog title={open.title} open side onClose={() => setOpen(null)}>
          <p className={kit.text}>{open.body}</p>
        </Dialog>
      )}
    </Card>
  );
}
