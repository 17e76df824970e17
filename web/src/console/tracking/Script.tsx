import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useEffect, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { type Schemas, useInstance } from "../../app/data";
import { Choice } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Table } from "../../kit/page";
import { useCan } from "../can";
import { useKeys } from "../keys/ApiKeys";
import { lines } from "../programs/data";
import { useTexts } from "../texts";
import { Code } from "./Code";
import { scriptElement } from "./snippets";

/** The script on the pages of the merchant, and whether its clicks arrive. */
export function Script() {
  return (
    <>
      <Snippet />
      <LiveCheck />
      <Origins />
    </>
  );
}

function Snippet() {
  const { t } = useTexts();
  const keys = useKeys();
  const instance = useInstance();
  const collector = instance?.linkUrl ?? null;
  return (
    <Card title={t.tracking.script}>
      <p>{t.tracking.scriptHint}</p>
      {instance && !collector && <Notice tone="warn">{t.tracking.noCollector}</Notice>}
      <Loaded query={keys}>
        {({ publicKey }) => instance && <Code label={t.tracking.script} code={scriptElement(collector ?? "https://collect.example", publicKey)} />}
      </Loaded>
      <p className={kit.muted}>{t.tracking.cookie}</p>
    </Card>
  );
}

/** The minutes of the past whose clicks the live check shows. */
const minutes = 10;

/** The clicks of the last minutes. While the page is visible, it looks for new ones. */
function LiveCheck() {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const [opened] = useState(() => Date.now());
  const [last, setLast] = useState<{ clicks: number; at: number | null } | null>(null);
  const [now, setNow] = useState(opened);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), 1_000);
    return () => clearInterval(timer);
  }, []);
  const query = useQuery({
    queryKey: [mode, "live-clicks"],
    queryFn: async () => {
      const params = { query: { dateFrom: new Date(opened - minutes * 60_000).toISOString(), groupBy: "landing_page" as const, metric: "clicks" as const, includeBots: true, pageSize: 5 } };
      const [summary, pages] = await Promise.all([api.GET("/api/v1/analytics/summary", { params: { query: { dateFrom: params.query.dateFrom, includeBots: true } } }), api.GET("/api/v1/analytics/breakdown", { params })]);
      return { clicks: unwrap(summary).metrics?.clicks ?? 0, pages: (unwrap(pages) as Schemas["AnalyticsBreakdown"]).rows.filter(({ clicks }) => clicks > 0) };
    },
    refetchInterval: 2_000,
    staleTime: 0,
  });
  const clicks = query.data?.clicks;
  // The service counts clicks and does not name their seconds, so a click arrived when the number has grown.
  useEffect(() => {
    if (clicks !== undefined) setLast((last) => (last && last.clicks === clicks ? last : { clicks, at: last ? Date.now() : null }));
  }, [clicks]);
  const seconds = last?.at ? Math.max(0, Math.round((now - last.at) / 1000)) : null;
  return (
    <Card title={t.tracking.check}>
      <p>{t.tracking.checkHint}</p>
      <Loaded query={query}>
        {({ clicks, pages }) => (
          <>
            {seconds !== null ? (
              <Notice tone="good">{t.tracking.arrived(seconds)}</Notice>
            ) : (
              <Notice>{clicks > 0 ? t.tracking.recent(f.number(clicks), minutes) : t.tracking.waiting}</Notice>
            )}
            {pages.length > 0 && (
              <Table
                caption={t.tracking.pages}
                rows={pages.map((row) => ({ ...row, id: row.value ?? "" }))}
                columns={[
                  { name: t.tracking.pages, cell: (row) => row.label || t.tracking.noPage, lead: true },
                  { name: t.activity.clicks, cell: (row) => f.number(row.clicks), number: true, sorted: true },
                ]}
              />
            )}
          </>
        )}
      </Loaded>
    </Card>
  );
}

function Origins() {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const can = useCan();
  const query = useQuery({ queryKey: [mode, "workspace"], queryFn: async () => unwrap(await api.GET("/api/v1/workspace")) });
  return (
    <Card title={t.tracking.origins}>
      <p className={kit.muted}>{t.tracking.originsHint}</p>
      <Loaded query={query}>
        {(workspace) =>
          can("UpdateWorkspace") ? (
            <OriginsForm workspace={workspace} />
          ) : (
            <Facts
              rows={[
                [t.tracking.origins, workspace.allowedOrigins.join(", ") || t.tracking.anyOrigin],
                [t.tracking.policy, workspace.originPolicy && t.tracking.policies[workspace.originPolicy].name],
              ]}
            />
          )
        }
      </Loaded>
    </Card>
  );
}

const policies = ["observe", "enforce", "enforce_strict"] as const;

function OriginsForm({ workspace }: { workspace: Schemas["Workspace"] }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const [saved, setSaved] = useState(false);
  const state = useSubmit(
    useCallback(
      async ({ allowedOrigins, originPolicy }) => {
        setSaved(false);
        const body = { allowedOrigins: lines(allowedOrigins), originPolicy: policies.find((policy) => policy === originPolicy) ?? "observe" };
        queries.setQueryData([mode, "workspace"], unwrap(await api.PATCH("/api/v1/workspace", { body })));
        setSaved(true);
      },
      [api, mode, queries],
    ),
  );
  return (
    <Form state={state} label={t.save}>
      <TextField name="allowedOrigins" lines label={t.tracking.originsField} hint={t.tracking.originsFieldHint} defaultValue={workspace.allowedOrigins.join("\n")} />
      <Choice
        name="originPolicy"
        label={t.tracking.policy}
        options={policies.map((policy): [string, string, string] => [policy, t.tracking.policies[policy].name, t.tracking.policies[policy].hint])}
        defaultValue={workspace.originPolicy ?? "observe"}
      />
      {saved && <Notice tone="good">{t.saved}</Notice>}
    </Form>
  );
}
