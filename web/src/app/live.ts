import { useQueryClient } from "@tanstack/react-query";
import { useEffect } from "react";

import { type Tributary, unwrap, useApp } from "./app";
import type { BrowserSession } from "./session";

/** The events of the stream after which the feed or the number of unread notifications is another. */
const changes = ["ready", "notification", "unread_count", "resync"];

/** The address of the notifications of partners or members. */
type Feed = "/api/v1/partner/notifications" | "/api/v1/notifications";

/** The address of the notifications of the user. */
export function feedOf({ kind }: BrowserSession): Feed {
  return kind === "partner" ? "/api/v1/partner/notifications" : "/api/v1/notifications";
}

/**
 * Keeps the notifications and their number up to date while the page is open. One tab has the
 * stream of the service, and tells the others about changes: a browser opens only a few
 * connections to a host.
 */
export function useLiveNotifications(): void {
  const { api, mode, session } = useApp();
  const queries = useQueryClient();
  useEffect(() => {
    const feed = feedOf(session);
    const name = `tributary-${session.kind}-notifications-${mode}`;
    const closed = new AbortController();
    const channel = new BroadcastChannel(name);
    let timer: ReturnType<typeof setTimeout> | undefined;
    const reload = () => {
      // A stream that is opened again sends all missed notifications at once.
      timer ??= setTimeout(() => {
        timer = undefined;
        for (const list of ["unread", "notifications"]) void queries.invalidateQueries({ queryKey: [mode, list] });
      }, 250);
    };
    channel.onmessage = reload;
    const changed = () => {
      reload();
      channel.postMessage("changed");
    };
    // The request fails when the page is closed while another tab has the stream.
    navigator.locks.request(name, { signal: closed.signal }, () => follow(api, feed, closed.signal, changed)).catch(() => {});
    return () => {
      closed.abort();
      channel.close();
      clearTimeout(timer);
    };
  }, [api, mode, queries, session]);
}

/** Opens the stream, and opens it again whenever it ends, until closed. */
async function follow(api: Tributary, feed: Feed, closed: AbortSignal, changed: () => void): Promise<void> {
  let delay = 1_000;
  while (!closed.aborted) {
    try {
      // An EventSource sends no headers, so a ticket replaces the access token.
      const { ticket } = unwrap(await api.POST(`${feed}/stream-ticket`, { signal: closed }));
      await listen(feed, ticket, closed, () => {
        delay = 1_000;
        changed();
      });
    } catch {
      // The next ticket is requested after the delay.
    }
    await pause(delay * (0.5 + Math.random()), closed);
    delay = Math.min(2 * delay, 60_000);
  }
}

/** Calls changed for each event until the stream ends. A lost connection does not end it. */
function listen(feed: Feed, ticket: string, closed: AbortSignal, changed: () => void): Promise<void> {
  return new Promise((resolve) => {
    const source = new EventSource(`${feed}/stream?ticket=${encodeURIComponent(ticket)}`);
    const end = () => {
      source.close();
      closed.removeEventListener("abort", end);
      resolve();
    };
    for (const name of changes) source.addEventListener(name, changed);
    source.addEventListener("reauth", end);
    source.addEventListener("error", () => source.readyState === EventSource.CLOSED && end());
    closed.addEventListener("abort", end);
    if (closed.aborted) end();
  });
}

/** Waits for a time in milliseconds, or until closed. */
function pause(time: number, closed: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(end, time);
    function end() {
      clearTimeout(timer);
      closed.removeEventListener("abort", end);
      resolve();
    }
    closed.addEventListener("abort", end);
    if (closed.aborted) end();
  });
}
