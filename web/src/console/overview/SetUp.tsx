import { useQuery, type UseQueryResult } from "@tanstack/react-query";

import { unwrap, useApp } from "../../app/app";
import { LinkButton } from "../../kit/controls";
import { Badge } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { liveInterval } from "../data";
import { useTexts } from "../texts";
import { daysBefore } from "./period";

/** The steps of the set-up in their order, with the pages on which they are done. */
const steps = [
  ["program", "/programs"],
  ["tracking", "/settings/tracking"],
  ["key", "/settings/api-keys"],
  ["click", "/settings/tracking"],
  ["conversion", "/settings/tracking?show=conversions"],
] as const;

/** Which steps of the set-up are done, and whether all are. */
export type Progress = Record<(typeof steps)[number][0] | "done", boolean>;

/** The progress of the set-up. While the page is visible, it is loaded again until all steps are done. */
export function useProgress(): UseQueryResult<Progress> {
  const { api, mode } = useApp();
  const { f } = useTexts();
  return useQuery({
    queryKey: [mode, "set-up"],
    queryFn: async () => {
      const [programs, keys, connection, conversions, year] = await Promise.all([
        api.GET("/api/v1/programs", { params: { query: { pageSize: 1, status: "active" } } }),
        api.GET("/api/v1/api-keys"),
        api.GET("/api/v1/integrations/{processor}", { params: { path: { processor: "stripe" } } }),
        api.GET("/api/v1/conversions", { params: { query: { page_size: 1 } } }),
        api.GET("/api/v1/analytics/summary", { params: { query: { dateFrom: daysBefore(f.isoDay(new Date()), 365), includeBots: true } } }),
      ]);
      const { connected } = unwrap(connection);
      const program = unwrap(programs).total > 0;
      const key = unwrap(keys).secretKeys.length > 0 || connected; // Stripe reports the sales itself
      const click = (unwrap(year).metrics?.clicks ?? 0) > 0;
      const conversion = unwrap(conversions).total > 0;
      return { program, tracking: click || connected, key, click, conversion, done: program && key && click && conversion };
    },
    refetchInterval: ({ state }) => (state.data?.done ? false : liveInterval),
  });
}

/** The steps from an empty workspace to the first conversion. Each is ticked when the service sees that it is done. */
export function SetUp({ progress }: { progress: Progress }) {
  const { t } = useTexts();
  const next = steps.find(([step]) => !progress[step])?.[0];
  return (
    <Card title={t.setUp.title}>
      <p className={kit.muted}>{t.setUp.about}</p>
      <ol className={kit.list}>
        {steps.map(([step, address]) => (
          <li key={step}>
            <div>
              <p>
                <strong>{t.setUp.steps[step].title}</strong> {progress[step] && <Badge tone="good">{t.setUp.done}</Badge>}
              </p>
              <p className={kit.muted}>{t.setUp.steps[step].about}</p>
            </div>
            {!progress[step] && (
              <LinkButton small kind={step === next ? "primary" : "secondary"} href={address} aria-label={`${t.setUp.open}: ${t.setUp.steps[step].title}`}>
                {t.setUp.open}
              </LinkButton>
            )}
          </li>
        ))}
      </ol>
    </Card>
  );
}
