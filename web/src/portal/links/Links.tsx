import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { useTexts } from "../../app/texts";
import { Select } from "../../kit/choices";
import { Button, LinkButton } from "../../kit/controls";
import { Badge, Empty, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Page, Pages, Table, usePage } from "../../kit/page";
import { isCapped, paged, pageOf, type PartnerLink, type Program, type Schemas, usePrograms } from "../data";
import { DeleteLink, LinkForm } from "./LinkForm";
import { OwnLink } from "./OwnLink";

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
  const [editing, setEditing] = useState<PartnerLink | "new" | null>(null);
  const [deleting, setDeleting] = useState<PartnerLink | null>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "links", program.id, page],
    queryFn: async () => {
      const result = await api.GET("/api/v1/partner/links", { params: { query: { programId: program.id, ...pageOf(page) } } });
      return { ...unwrap(result), capped: isCapped(result.response) };
    },
  });
  const changed = () => {
    setEditing(null);
    setDeleting(null);
    void queries.invalidateQueries({ queryKey: [mode, "links"] });
  };
  const add = program.participation?.status !== "rejected" && program.participation?.status !== "suspended" && (
    <Button kind="primary" onPress={() => setEditing("new")}>
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
                  {
                    name: t.links.action,
                    cell: (link) => (
                      <Button small onPress={() => setEditing(link)} aria-label={`${t.links.edit}: ${link.code}`}>
                        {t.links.edit}
                      </Button>
                    ),
                  },
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          );
        }}
      </Loaded>
      {editing && (
        <LinkForm
          program={program}
          link={editing === "new" ? null : editing}
          onDone={changed}
          onClose={() => setEditing(null)}
          onDelete={(link) => {
            setEditing(null);
            setDeleting(link);
          }}
        />
      )}
      {deleting && <DeleteLink link={deleting} onDone={changed} onClose={() => setDeleting(null)} />}
    </Card>
  );
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
