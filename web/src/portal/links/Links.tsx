import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { useParameter } from "../../app/address";
import { type Tributary, unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, usePage } from "../../kit/page";
import { type PartnerLink, type Program, usePrograms } from "../data";
import { useTexts } from "../texts";
import { DeleteLink, LinkForm } from "./LinkForm";
import { OwnLink } from "./OwnLink";
import { ShareLink } from "./ShareLink";

export default function Links() {
  const { t } = useTexts();
  const programs = usePrograms();
  return (
    <Page title={t.links.title} about={t.links.about}>
      <Loaded query={programs}>{(programs) => <Chosen programs={programs.filter((program) => program.participation)} />}</Loaded>
    </Page>
  );
}

/** The links of one programme. The address names it if the partner takes part in several. */
function Chosen({ programs }: { programs: Program[] }) {
  const { t } = useTexts();
  const [id, setId] = useParameter("program");
  const program = programs.find((program) => program.id === id) ?? programs[0];
  if (!program) {
    return (
      <Card>
        <Empty
          title={t.links.noProgram}
          action={
            <LinkButton kind="primary" href="/programs?show=public">
              {t.home.find}
            </LinkButton>
          }
        />
      </Card>
    );
  }
  return (
    <>
      {programs.length > 1 && (
        <div className={kit.filters}>
          <Select
            label={t.links.program}
            options={programs.map(({ id, name }) => [id, name])}
            value={program.id}
            onChange={(key) => setId(String(key))}
          />
        </div>
      )}
      <OwnLink title={t.links.own(program.name)} program={program} />
      <FurtherLinks key={program.id} program={program} />
      <PromoCodes program={program} />
    </>
  );
}

function FurtherLinks({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const queries = useQueryClient();
  const page = usePage();
  const [open, setOpen] = useState<{ view: "details" | "form" | "delete"; link: PartnerLink | null } | null>(null);
  const close = () => setOpen(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "links", program.id, page],
    queryFn: async () => listOf(await api.GET("/api/v1/partner/links", { params: { query: { programId: program.id, ...pageOf(page) } } })),
  });
  const earned = useQuery({ queryKey: [mode, "links", program.id, "earned"], queryFn: () => earningsOf(api, program.id) });
  const changed = (link: PartnerLink | null) => {
    setOpen(link && { view: "details", link });
    void queries.invalidateQueries({ queryKey: [mode, "links"] });
  };
  const add = program.participation?.status !== "rejected" && program.participation?.status !== "suspended" && (
    <Button kind="primary" onPress={() => setOpen({ view: "form", link: null })}>
      {t.links.create}
    </Button>
  );
  return (
    <Card title={t.links.more} action={add}>
      <Loaded query={query}>
        {({ data, total, capped }) => {
          const links = data.filter((link) => !link.isDefault);
          if (links.length === 0 && page === 1) return <Empty title={t.links.none}>{t.links.moreHint}</Empty>;
          return (
            <>
              <Table
                caption={t.links.more}
                stale={query.isPlaceholderData}
                rows={links}
                columns={[
                  { name: t.links.code, cell: (link) => link.code, lead: true },
                  { name: t.links.destination, cell: (link) => link.destinationUrl },
                  { name: t.links.subId, cell: (link) => link.subId ?? "–" },
                  { name: t.links.clicks, cell: (link) => f.number(link.clicks), number: true },
                  { name: t.links.conversions, cell: (link) => f.number(link.conversions), number: true },
                  { name: t.home.earnings, cell: (link) => (earned.data ? f.money(earned.data.get(link.id) ?? 0, program.currency) : "–"), number: true },
                  {
                    name: t.links.action,
                    cell: (link) => (
                      <Button small onPress={() => setOpen({ view: "details", link })} aria-label={`${t.links.open}: ${link.code}`}>
                        {t.links.open}
                      </Button>
                    ),
                  },
                ]}
              />
              <Pages total={total} capped={capped} />
              <p className={kit.muted}>{t.links.earnedIn}</p>
            </>
          );
        }}
      </Loaded>
      {open?.view === "form" && <LinkForm program={program} link={open.link} onDone={changed} onClose={() => setOpen(open.link && { ...open, view: "details" })} />}
      {open?.link && open.view === "details" && <LinkDetails link={open.link} onView={(view) => setOpen({ ...open, view })} onClose={close} />}
      {open?.link && open.view === "delete" && <DeleteLink link={open.link} onDone={() => changed(null)} onClose={close} />}
    </Card>
  );
}

/** The address of a link to share, and what can be done with the link. */
function LinkDetails({ link, onView, onClose }: { link: PartnerLink; onView: (view: "form" | "delete") => void; onClose: () => void }) {
  const { t } = useTexts();
  return (
    <Dialog title={t.links.one(link.code)} open onClose={onClose}>
      <ShareLink label={t.links.address} link={link} code={link.code} />
      <div className={kit.actions}>
        <Button onPress={onClose}>{t.close}</Button>
        <Button onPress={() => onView("form")}>{t.links.edit}</Button>
        <Button kind="danger" onPress={() => onView("delete")}>
          {t.links.remove}
        </Button>
      </div>
    </Dialog>
  );
}

/** The longest period of the numbers, in days, with some days less for clocks that are behind. */
const longestPeriod = 5 * 365;

/** What the links of a programme have earned, in cents, by the ids of the links. */
async function earningsOf(api: Tributary, programId: string): Promise<Map<string, number>> {
  const earned = new Map<string, number>();
  const dateFrom = new Date(Date.now() - longestPeriod * 24 * 60 * 60 * 1000).toISOString();
  for (let page = 1; ; page++) {
    const query = { programId, groupBy: "link", metric: "commissionCents", dateFrom, page, pageSize: 100 } as const;
    const { rows } = unwrap(await api.GET("/api/v1/partner/analytics/breakdown", { params: { query } })) as Schemas["AnalyticsBreakdown"];
    for (const { value, commissionCents } of rows) if (value) earned.set(value, commissionCents);
    if (rows.length < query.pageSize) return earned;
  }
}

function PromoCodes({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "promo-codes", program.id],
    queryFn: async () =>
      unwrap(await api.GET("/api/v1/partner/promo-codes", { params: { query: { programId: program.id, pageSize: 100 } } })).data,
  });
  const discount = (code: Schemas["PromoCode"]) =>
    code.discountType === "percentage" ? f.percent(code.discountValue * 100) : f.money(code.discountValue, code.currency ?? program.currency);
  return (
    <Card title={t.links.codes}>
      <Loaded query={query}>
        {(codes) =>
          codes.length === 0 ? (
            <Empty title={t.links.noCodes}>{t.links.noCodesHint}</Empty>
          ) : (
            <>
              <p className={kit.muted}>{t.links.codesHint}</p>
              <Table
                caption={t.links.codes}
                rows={codes}
                columns={[
                  {
                    name: t.links.code,
                    cell: (code) => (
                      <>
                        {code.code} {!code.active && <Badge>{t.links.inactive}</Badge>}
                      </>
                    ),
                    lead: true,
                  },
                  { name: t.links.discount, cell: discount, number: true },
                  {
                    name: t.links.used,
                    cell: ({ redemptions, maxRedemptions }) =>
                      maxRedemptions ? t.links.usedOf(f.number(redemptions), f.number(maxRedemptions)) : f.number(redemptions),
                    number: true,
                  },
                  { name: t.links.expires, cell: (code) => (code.expiresAt ? f.time(code.expiresAt) : "–") },
                ]}
              />
            </>
          )
        }
      </Loaded>
    </Card>
  );
}
