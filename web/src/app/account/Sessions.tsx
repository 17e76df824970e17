import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";

import { Button } from "../../kit/controls";
import { Badge, Failure, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, usePage } from "../../kit/page";
import { unwrap, useApp } from "../app";
import { listOf, paged, pageOf, type Schemas } from "../data";
import { type Texts, useTexts } from "../texts";

type Session = Schemas["AccountSession"];

/** The key of the query of the sessions. They are the same in both modes. */
export const sessionsKey = ["sessions"];

/** The devices that are logged in to the account. */
export function Sessions() {
  const { api, session } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const page = usePage();
  const list = useRef<HTMLUListElement>(null);
  const query = useQuery({
    ...paged,
    queryKey: [...sessionsKey, page],
    queryFn: async () => listOf(await api.GET(`/api/v1/auth/${session.kind}/sessions`, { params: { query: pageOf(page) } })),
  });
  const reload = async () => {
    list.current?.focus(); // the button that had the focus goes away
    await queries.invalidateQueries({ queryKey: sessionsKey });
  };
  const end = useMutation({
    mutationFn: async (id: string) => unwrap(await api.DELETE(`/api/v1/auth/${session.kind}/sessions/{sessionId}`, { params: { path: { sessionId: id } } })),
    onSettled: reload,
  });
  const endOthers = useMutation({ mutationFn: async () => unwrap(await api.DELETE(`/api/v1/auth/${session.kind}/sessions`)), onSettled: reload });
  const error = end.error ?? endOthers.error;
  return (
    <Loaded query={query}>
      {({ data, total, capped }) => (
        <Card
          title={t.settings.sessions}
          action={
            total > 1 && (
              <Button small kind="danger" isPending={endOthers.isPending} onPress={() => endOthers.mutate()}>
                {t.settings.endOthers}
              </Button>
            )
          }
        >
          <p className={kit.muted}>{t.settings.sessionsHint}</p>
          {error && <Failure error={error} />}
          <ul ref={list} className={kit.list} aria-label={t.settings.sessions} tabIndex={-1}>
            {data.map((session) => (
              <Entry key={session.id} session={session} isPending={end.isPending} onEnd={() => end.mutate(session.id)} />
            ))}
          </ul>
          <Pages total={total} capped={capped} />
        </Card>
      )}
    </Loaded>
  );
}

function Entry({ session, isPending, onEnd }: { session: Session; isPending: boolean; onEnd: () => void }) {
  const { t, f } = useTexts();
  const { createdAt, lastUsedAt, network, current } = session;
  const device = deviceOf(session, t);
  return (
    <li>
      <div>
        <p>
          <strong>{device}</strong> {current && <Badge tone="good">{t.settings.thisDevice}</Badge>}
        </p>
        <p className={`${kit.muted} ${kit["small-text"]}`}>
          {lastUsedAt && `${t.settings.lastUsed(f.time(lastUsedAt))} (${f.relative(lastUsedAt)})`}
          <br />
          {createdAt && t.settings.loggedIn(f.time(createdAt))}
          {network && `, ${t.settings.network(network)}`}
        </p>
      </div>
      {!current && (
        <Button small isDisabled={isPending} aria-label={`${t.settings.endSession}: ${device}`} onPress={onEnd}>
          {t.settings.endSession}
        </Button>
      )}
    </li>
  );
}

/** The browser and the system in words. The service names them as "Firefox on Linux". */
function deviceOf({ device }: Session, t: Texts): string {
  const [browser = "", system] = device.split(" on ");
  if (system) return t.settings.device(browser, system);
  return device || t.settings.unknownDevice;
}
