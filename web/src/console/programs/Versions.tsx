import { useQuery } from "@tanstack/react-query";
import { useState } from "react";

import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Loaded } from "../../kit/feedback";
import { Card, Facts, Pages, Table, usePage } from "../../kit/page";
import { useTexts } from "../texts";
import type { Program } from "./data";
import { termsOf, wordsOf } from "./terms";

/** The versions of the commission rules, the newest first. */
export function Versions({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const page = usePage();
  const [open, setOpen] = useState<Schemas["ProgramRules"] | null>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "programs", program.id, "versions", page],
    queryFn: async () => listOf(await api.GET("/api/v1/programs/{programId}/rules", { params: { path: { programId: program.id }, query: pageOf(page) } })),
  });
  // The rules of the programme itself have no versions, only those of the commission.
  const rows = open?.rules ? wordsOf({ ...termsOf(program), commissionRules: open.rules }, program.currency, t, f) : [];
  const own = new Set([t.rules.window, t.rules.model, t.rules.precedence, t.rules.minPayout, t.rules.term]);
  return (
    <Card title={t.rules.versions}>
      <p>{t.rules.versionsHint}</p>
      <Loaded query={query}>
        {({ data, total, capped }) => (
          <>
            <Table
              caption={t.rules.versions}
              stale={query.isPlaceholderData}
              rows={data.map((version) => ({ ...version, id: String(version.version) }))}
              columns={[
                {
                  name: t.rules.version,
                  cell: (row) => (
                    <Button small kind="plain" onPress={() => setOpen(row)}>
                      {t.rules.versionOf(f.number(row.version))}
                    </Button>
                  ),
                  lead: true,
                },
                { name: t.rules.since, cell: (row) => row.at && f.time(row.at), sorted: true },
              ]}
            />
            <Pages total={total} capped={capped} />
          </>
        )}
      </Loaded>
      {open && (
        <Dialog title={t.rules.versionOf(f.number(open.version))} open side onClose={() => setOpen(null)}>
          <Facts rows={rows.filter(([name]) => !own.has(name))} />
        </Dialog>
      )}
    </Card>
  );
}
