import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";

import { Checkbox } from "../../kit/controls";
import { Failure, Loaded, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Table } from "../../kit/page";
import { ResendVerification } from "../account/ResendVerification";
import { unwrap, useApp } from "../app";
import type { Schemas } from "../data";
import { feedOf } from "../live";
import { useTexts } from "../texts";

type Preference = Schemas["CategoryPreference"];

/** What the user gets by mail and in the portal, for each category. */
export function Preferences() {
  const { api, mode, session } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const key = [mode, "preferences"];
  const query = useQuery({
    queryKey: key,
    queryFn: async () => unwrap(await api.GET(`${feedOf(session)}/preferences`)),
  });
  const change = useMutation({
    mutationFn: async (change: Schemas["CategoryPreferenceChange"]) =>
      unwrap(await api.PATCH(`${feedOf(session)}/preferences`, { body: { categories: [change] } })),
    onSuccess: (preferences) => queries.setQueryData(key, preferences),
  });
  const name = ({ category, label }: Preference) => t.app.categories[category ?? ""] ?? label;
  const choice = (row: Preference, way: "email" | "inApp") => {
    const { category } = row;
    if (row.protected || !category) return t.notifications.always;
    return (
      <Checkbox aria-label={`${name(row)}: ${t.notifications[way]}`} isSelected={row[way]} onChange={(on) => change.mutate({ category, [way]: on })} />
    );
  };
  return (
    <Loaded query={query}>
      {({ categories, emailSuppressed }) => (
        <>
          <p className={kit.muted}>{t.notifications.preferencesHint}</p>
          {emailSuppressed && (
            <Notice tone="warn" action={<ResendVerification />}>
              {t.notifications.suppressed}
            </Notice>
          )}
          {change.isError && <Failure error={change.error} />}
          <Table
            caption={t.notifications.preferences}
            rows={categories.map((row) => ({ ...row, id: row.category ?? row.label }))}
            columns={[
              { name: t.notifications.category, cell: name, lead: true },
              { name: t.notifications.email, cell: (row) => choice(row, "email") },
              { name: t.notifications.inApp, cell: (row) => choice(row, "inApp") },
            ]}
          />
        </>
      )}
    </Loaded>
  );
}
