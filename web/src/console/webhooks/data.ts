import { useQuery } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import type { Tone } from "../../kit/feedback";
import { liveInterval, useReloadOf } from "../data";
import { useTexts } from "../texts";

export type Webhook = Schemas["Webhook"];
export type Delivery = Schemas["Delivery"];

export const deliveryStatuses = ["pending", "delivered", "failed", "dead_lettered", "canceled"] as const;

export const deliveryTones: Record<(typeof deliveryStatuses)[number], Tone> = {
  pending: "info",
  delivered: "good",
  failed: "warn",
  dead_lettered: "bad",
  canceled: "info",
};

export function useWebhook(id: string) {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "webhooks", "one", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/webhooks/{webhookId}", { params: { path: { webhookId: id } } })),
    refetchInterval: liveInterval,
  });
}

/** All kinds of events that endpoints can get. */
export function useEventTypes() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "webhooks", "event-types"],
    queryFn: async () => unwrap(await api.GET("/api/v1/webhooks/event-types")).data,
    staleTime: Number.POSITIVE_INFINITY,
  });
}

/** Returns a function that loads again what a change of an endpoint changes. */
export function useReload(): () => Promise<void> {
  return useReloadOf("webhooks", "to-do");
}

/** Returns a function that says in words why an attempt failed. The service has a code, such as timeout or http_503. */
export function useFailure(): (code: string | null) => string {
  const { t } = useTexts();
  return (code) => {
    if (!code) return "";
    const status = /^http_(\d+)$/.exec(code)?.[1];
    const known: Record<string, string> = t.webhooks.failures;
    return status ? t.webhooks.httpStatus(status) : (known[code] ?? code);
  };
}
