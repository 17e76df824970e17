import { useQuery } from "@tanstack/react-query";
import { Redirect, useParams } from "wouter";

import { unwrap, useApp } from "../../app/app";
import { Empty, Loaded } from "../../kit/feedback";
import { Card, Page } from "../../kit/page";
import { useTexts } from "../texts";

/** Leads to the page of a partner whose programme the link does not name. */
export default function FindPartner() {
  const { id = "" } = useParams<{ id: string }>();
  const { api, mode } = useApp();
  const { t } = useTexts();
  const query = useQuery({
    queryKey: [mode, "partners", "where", id],
    queryFn: async () => unwrap(await api.GET("/api/v1/partners", { params: { query: { search: id, pageSize: 1 } } })).data[0] ?? null,
  });
  if (query.data) return <Redirect to={`/programs/${query.data.programId}/partners/${query.data.id}`} replace />;
  return (
    <Page title={t.partners.one}>
      <Loaded query={query}>
        {() => (
          <Card>
            <Empty title={t.errors.codes.NOT_FOUND} />
          </Card>
        )}
      </Loaded>
    </Page>
  );
}
