import { useQuery } from "@tanstack/react-query";
import { Link } from "react-aria-components/Link";

import { unwrap, useApp } from "../../app/app";
import { isCapped } from "../../app/data";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { liveInterval } from "../data";
import { useTexts } from "../texts";

/** What waits for a decision of the team, each with a link to the list with its filter set. */
export function ToDo() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "to-do"],
    queryFn: async () => {
      const batches = (status: "draft" | "awaiting_approval") => api.GET("/api/v1/payouts/batches", { params: { query: { status, pageSize: 1 } } });
      const [applications, commissions, fraud, drafts, awaiting, webhooks] = await Promise.all([
        api.GET("/api/v1/partners", { params: { query: { status: "pending", pageSize: 1 } } }),
        api.GET("/api/v1/commissions/stats", { params: { query: { needsReview: true } } }),
        api.GET("/api/v1/fraud/events", { params: { query: { status: "open", pageSize: 1 } } }),
        batches("draft"),
        batches("awaiting_approval"),
        api.GET("/api/v1/webhooks", { params: { query: { pageSize: 100 } } }),
      ]);
      const count = (result: { data?: { total: number }; error?: unknown; response: Response }) => f.number(unwrap(result).total) + (isCapped(result.response) ? "+" : "");
      return [
        { text: t.toDo.applications, count: count(applications), address: "/partners?show=applications" },
        { text: t.toDo.review, count: f.number(unwrap(commissions).needsReviewCount), address: "/commissions" },
        { text: t.toDo.fraud, count: count(fraud), address: "/fraud" },
        { text: t.toDo.batches, count: count(drafts), address: "/payouts?status=draft" },
        { text: t.toDo.awaiting, count: count(awaiting), address: "/payouts?status=awaiting_approval" },
        { text: t.toDo.webhooks, count: f.number(unwrap(webhooks).data.filter(({ status, disabledReason }) => status === "failing" || (status === "disabled" && disabledReason !== "manual")).length), address: "/webhooks" },
      ].filter(({ count }) => count !== f.number(0));
    },
    refetchInterval: liveInterval,
  });
  const payable = useQuery({
    queryKey: [mode, "to-do", "payable"],
    queryFn: async () => unwrap(await api.POST("/api/v1/payouts/preview", { body: { pageSize: 1 } })).totals,
  });
  const amounts = (payable.data ?? []).map(({ currency, amountCents }) => ({ text: t.toDo.payable, count: f.money(amountCents, currency), address: "/payouts/new" }));
  return (
    <Card title={t.toDo.title}>
      <Loaded query={query}>
        {(open) =>
          open.length + amounts.length === 0 ? (
            <p className={kit.muted}>{t.toDo.none}</p>
          ) : (
            <ul className={kit.list}>
              {[...open, ...amounts].map(({ text, count, address }) => (
                <li key={text + count}>
                  <Link href={address}>{text}</Link>
                  <strong>{count}</strong>
                </li>
              ))}
            </ul>
          )
        }
      </Loaded>
    </Card>
  );
}
