import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Button, LinkButton, SearchField } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { CopyButton } from "../../kit/sharing";
import { useCan } from "../can";
import { useTexts } from "../texts";
import type { Program } from "./data";
import { DeleteLink, LinkForm } from "./LinkForm";

export type ProgramLink = Schemas["Link"];

/** The links of the partners of a programme. */
export function Links({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const [search] = useParameter("search");
  const [open, setOpen] = useState<{ view: "form" | "delete"; link: ProgramLink | null } | null>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "programs", program.id, "links", search, page],
    queryFn: async () => {
      const query = { ...(search && { search }), ...pageOf(page) };
      return listOf(await api.GET("/api/v1/programs/{programId}/links", { params: { path: { programId: program.id }, query } }));
    },
  });
  const canChange = can("UpdateLink") && program.status !== "archived";
  const close = () => setOpen(null);
  return (
    <>
      <div className={kit.cardHead}>
        <p className={kit.muted}>{t.links.about}</p>
        {canChange && (
          <Button kind="primary" onPress={() => setOpen({ view: "form", link: null })}>
            {t.links.create}
          </Button>
        )}
      </div>
      <div className={kit.filters}>
        <SearchField label={t.links.search} maxLength={50} />
      </div>
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {search ? (
                <Empty title={t.links.noneFiltered} action={<LinkButton href={`/programs/${program.id}?show=links`}>{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.links.none}>{t.links.noneHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.programs.tabs.links}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.links.code,
                    cell: (link) => (
                      <>
                        {link.code} {link.isDefault && <Badge>{t.links.isDefault}</Badge>}
                      </>
                    ),
                    lead: true,
                  },
                  { name: t.links.partner, cell: (link) => <Link href={`/programs/${program.id}/partners/${link.participantId}`}>{link.partnerName}</Link> },
                  { name: t.links.destination, cell: (link) => link.destinationUrl },
                  { name: t.programs.clicks, cell: (link) => f.number(link.clicks), number: true },
                  { name: t.programs.conversions, cell: (link) => f.number(link.conversions), number: true },
                  {
                    name: t.links.action,
                    cell: (link) => (
                      <span className={kit.actions}>
                        <CopyButton text={link.shortUrl ?? link.url} />
                        {canChange && (
                          <Button aria-label={`${t.programs.edit}: ${link.code}`} onPress={() => setOpen({ view: "form", link })}>
                            {t.programs.edit}
                          </Button>
                        )}
                        {canChange && !link.isDefault && (
                          <Button kind="danger" aria-label={`${t.links.remove}: ${link.code}`} onPress={() => setOpen({ view: "delete", link })}>
                            {t.links.remove}
                          </Button>
                        )}
                      </span>
                    ),
                  },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open?.view === "form" && <LinkForm program={program} link={open.link} onClose={close} />}
      {open?.view === "delete" && open.link && <DeleteLink program={program} link={open.link} onClose={close} />}
    </>
  );
}
