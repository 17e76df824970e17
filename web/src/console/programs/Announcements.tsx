import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Done, Empty, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import type { Program } from "./data";

interface Text {
  title: string;
  body: string;
}

/** A text to all partners of a programme. It is shown before it is sent. */
export function Announcements({ program }: { program: Program }) {
  const { t } = useTexts();
  const can = useCan();
  const [draft, setDraft] = useState<Text | null>(null);
  const [sent, setSent] = useState("");
  const [form, setForm] = useState(0);
  const state = useSubmit(
    useCallback(async ({ title = "", body = "" }) => {
      setSent("");
      setDraft({ title: title.trim(), body: body.trim() });
    }, []),
  );
  if (!can("CreateAnnouncement")) {
    return (
      <Card>
        <Empty title={t.announcements.title}>{t.announcements.forbidden}</Empty>
      </Card>
    );
  }
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
      onSent(t.announcements.sent(f.number(recipients ?? 0)));
    }, [api, draft, f, onSent, program.id, t]),
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
