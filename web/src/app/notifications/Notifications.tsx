import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useRef } from "react";
import { Link } from "react-aria-components/Link";

import { Button } from "../../kit/controls";
import { Badge, Empty, Failure, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Tabs, usePage } from "../../kit/page";
import { useParameter } from "../address";
import { unwrap, useApp } from "../app";
import { listOf, paged, pageOf, type Schemas } from "../data";
import { feedOf } from "../live";
import { useTexts } from "../texts";
import { Preferences } from "./Preferences";
import { sentenceOf } from "./sentences";

type Notification = Schemas["Notification"];

export default function Notifications() {
  const { t } = useTexts();
  const [show] = useParameter("show", "feed");
  return (
    <Page title={t.notifications.title}>
      <Tabs
        label={t.notifications.title}
        tabs={[
          ["feed", t.notifications.feed],
          ["preferences", t.notifications.preferences],
        ]}
      />
      {show === "preferences" ? <Preferences /> : <Feed />}
    </Page>
  );
}

/** The notifications, newest first. The stream of useLiveNotifications keeps them up to date. */
function Feed() {
  const { api, mode, session } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const page = usePage();
  const list = useRef<HTMLUListElement>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "notifications", page],
    queryFn: async () => listOf(await api.GET(feedOf(session), { params: { query: pageOf(page) } })),
  });
  const change = useMutation({
    mutationFn: async ({ id, as }: { id: string; as: "read" | "dismiss" }) =>
      unwrap(await api.POST(`${feedOf(session)}/{notificationId}/${as}`, { params: { path: { notificationId: id } } })),
    onSuccess: () => reload(),
  });
  const readAll = useMutation({
    mutationFn: async () => unwrap(await api.POST(`${feedOf(session)}/read-all`, { body: {} })),
    onSuccess: () => reload(),
  });
  const reload = async () => {
    list.current?.focus(); // the button that had the focus goes away
    await Promise.all(["unread", "notifications"].map((list) => queries.invalidateQueries({ queryKey: [mode, list] })));
  };
  const error = change.error ?? readAll.error;
  return (
    <Loaded query={query}>
      {({ data, total, capped }) =>
        data.length === 0 && page === 1 ? (
          <Card>
            <Empty title={t.notifications.none}>{t.app.noNotificationsHint}</Empty>
          </Card>
        ) : (
          <>
            {error && <Failure error={error} />}
            <Card
              action={
                data.some(({ read }) => !read) && (
                  <Button small isPending={readAll.isPending} onPress={() => readAll.mutate()}>
                    {t.notifications.readAll}
                  </Button>
                )
              }
            >
              <ul ref={list} className={kit.list} aria-label={t.notifications.title} tabIndex={-1}>
                {data.map((notification) => (
                  <Entry
                    key={notification.id}
                    notification={notification}
                    onRead={() => change.mutate({ id: notification.id, as: "read" })}
                    onDismiss={() => change.mutate({ id: notification.id, as: "dismiss" })}
                  />
                ))}
              </ul>
            </Card>
            <Pages total={total} capped={capped} />
          </>
        )
      }
    </Loaded>
  );
}

function Entry({ notification, onRead, onDismiss }: { notification: Notification; onRead: () => void; onDismiss: () => void }) {
  const { session } = useApp();
  const { t, f, language } = useTexts();
  const { read, createdAt } = notification;
  const { title, body } = sentenceOf(notification, session.kind, language, f);
  const address = addressOf(notification);
  return (
    <li>
      <div>
        <p>
          {address ? (
            <Link href={address} onPress={() => !read && onRead()}>
              {title}
            </Link>
          ) : (
            <strong>{title}</strong>
          )}{" "}
          {!read && <Badge tone="warn">{t.notifications.unread}</Badge>}
        </p>
        <p className={kit.text}>{body}</p>
        {createdAt && (
          <time className={`${kit.muted} ${kit["small-text"]}`} dateTime={createdAt}>
            {f.time(createdAt)} ({f.relative(createdAt)})
          </time>
        )}
      </div>
      <span className={kit.actions}>
        {!read && (
          <Button small aria-label={`${t.notifications.read}: ${title}`} onPress={onRead}>
            {t.notifications.read}
          </Button>
        )}
        <Button small kind="plain" aria-label={`${t.notifications.dismiss}: ${title}`} onPress={onDismiss}>
          {t.notifications.dismiss}
        </Button>
      </span>
    </li>
  );
}

/** The page of this application about the record of a notification. It is null if there is none. */
function addressOf({ actionUrl }: Notification): string | null {
  if (!actionUrl) return null;
  const { pathname, search } = new URL(actionUrl);
  return pathname.replace(/^\/(console|portal)(\/test)?/, "") + search || "/";
}
