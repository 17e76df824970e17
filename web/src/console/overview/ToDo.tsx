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
      const [commissions, fraud, batches, webhooks] = await Promise.all([
        api.GET("/api/v1/commissions/stats", { params: { query: { needsReview: true } } }),
        api.GET("/api/v1/fraud/events", { params: { query: { status: "open", pageSize: 1 } } }),
        api.GET("/api/v1/payouts/batches", { params: { query: { status: "draft", pageSize: 1 } } }),
        api.GET("/api/v1/webhooks", { params: { query: { pageSize: 100 } } }),
      ]);
      const count = ({ data, response }: { data?: { total: number }; response: Response }) => f.number(data?.total ?? 0) + (isCapped(response) ? "+" : "");
      unwrap(fraud);
      unwrap(batches);
      return [
        { text: t.toDo.review, count: f.number(unwrap(commissions).needsReviewCount), address: "/commissions" },
        { text: t.toDo.fraud, count: count(fraud), address: "/fraud" },
        { text: t.toDo.batches, count: count(batches), address: "/payouts?status=draft" },
        { text: t.toDo.webhooks, count: f.number(unwrap(webhooks).data.filter(({ status, disabledReason }) => status === "failing" || (status === "disabled" && disabledReason !== "manual")).length), address: "/webhooks" },
      ].filter(({ count }) => count !== f.number(0));
    },
    refetchInterval: liveInterval,
  });
  const owed = useQuery({
    queryKey: [mode, "owed"],
    queryFn: async () => unwrap(await api.GET("/api/v1/ledger/balances", { params: { query: { pageSize: 1 } } })).totals,
  });
  const amounts = (owed.data ?? [])
    .filter(({ owedToPartnersCents }) => owedToPartnersCents > 0)
    .map(({ currency, owedToPartnersCents }) => ({ text: t.toDo.owed, count: f.money(owedToPartnersCents, currency), address: "/payouts" }));
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
