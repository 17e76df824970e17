import { useMutation, useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import { unwrap, useApp } from "../../app/app";
import { listOf, paged, pageOf, type Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, LinkButton, SearchField } from "../../kit/controls";
import { Badge, Empty, Failure, Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card, Pages, Table, usePage } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { type Program, useReload } from "./data";
import { DeleteCode, PromoCodeForm } from "./PromoCodeForm";

export type PromoCode = Schemas["PromoCode"];

/** The promo codes of the partners of a programme. */
export function PromoCodes({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const can = useCan();
  const page = usePage();
  const reload = useReload();
  const [search] = useParameter("search");
  const [active, setActive] = useParameter("active");
  const [open, setOpen] = useState<{ view: "form" | "delete"; code: PromoCode | null } | null>(null);
  const query = useQuery({
    ...paged,
    queryKey: [mode, "programs", program.id, "promo-codes", search, active, page],
    queryFn: async () => {
      const query = { ...(search && { search }), ...(active && { active: active === "true" }), ...pageOf(page) };
      return listOf(await api.GET("/api/v1/programs/{programId}/promo-codes", { params: { path: { programId: program.id }, query } }));
    },
  });
  const toggle = useMutation({
    mutationFn: async ({ id, active }: PromoCode) =>
      unwrap(await api.PATCH("/api/v1/programs/{programId}/promo-codes/{promoCodeId}", { params: { path: { programId: program.id, promoCodeId: id } }, body: { active: !active } })),
    onSettled: reload,
  });
  const canChange = can("UpdatePromoCode") && program.status !== "archived";
  const close = () => setOpen(null);
  const discount = (code: PromoCode) => (code.discountType === "percentage" ? f.percent(code.discountValue * 100) : f.money(code.discountValue, code.currency ?? program.currency));
  return (
    <>
      <div className={kit.cardHead}>
        <p className={kit.muted}>{t.codes.about}</p>
        {canChange && (
          <Button kind="primary" onPress={() => setOpen({ view: "form", code: null })}>
            {t.codes.create}
          </Button>
        )}
      </div>
      <div className={kit.filters}>
        <SearchField label={t.links.search} maxLength={100} />
        <Select
          label={t.programs.status}
          options={[
            ["", t.filter.all],
            ["true", t.codes.active],
            ["false", t.codes.inactive],
          ]}
          value={active}
          onChange={(key) => setActive(String(key))}
        />
      </div>
      {toggle.isError && <Failure error={toggle.error} />}
      <Loaded query={query}>
        {({ data, total, capped }) =>
          data.length === 0 ? (
            <Card>
              {search || active ? (
                <Empty title={t.codes.noneFiltered} action={<LinkButton href={`/programs/${program.id}?show=codes`}>{t.filter.clear}</LinkButton>} />
              ) : (
                <Empty title={t.codes.none}>{t.codes.noneHint}</Empty>
              )}
            </Card>
          ) : (
            <>
              <Table
                caption={t.programs.tabs.codes}
                stale={query.isPlaceholderData}
                rows={data}
                columns={[
                  {
                    name: t.links.code,
                    cell: (code) => (
                      <>
                        {code.code} {!code.active && <Badge>{t.codes.inactive}</Badge>}
                      </>
                    ),
                    lead: true,
                  },
                  { name: t.links.partner, cell: (code) => <Link href={`/programs/${program.id}/partners/${code.participantId}`}>{code.partnerName}</Link> },
                  { name: t.codes.discount, cell: discount, number: true },
                  {
                    name: t.codes.used,
                    cell: (code) => (code.maxRedemptions === null ? f.number(code.redemptions) : t.codes.usedOf(f.number(code.redemptions), f.number(code.maxRedemptions))),
                    number: true,
                  },
                  { name: t.codes.expires, cell: (code) => (code.expiresAt ? f.time(code.expiresAt) : t.codes.never) },
                  { name: t.codes.stripe, cell: ({ syncStatus }) => syncStatus && <Badge tone={syncStatus === "failed" ? "bad" : syncStatus === "synced" ? "good" : "info"}>{t.codes.sync[syncStatus]}</Badge> },
                  ...(canChange
                    ? [
                        {
                          name: t.links.action,
                          cell: (code: PromoCode) => (
                            <span className={kit.actions}>
                              <Button small aria-label={`${t.programs.edit}: ${code.code}`} onPress={() => setOpen({ view: "form", code })}>
                                {t.programs.edit}
                              </Button>
                              <Button small isDisabled={toggle.isPending} aria-label={`${code.active ? t.codes.deactivate : t.codes.activate}: ${code.code}`} onPress={() => toggle.mutate(code)}>
                                {code.active ? t.codes.deactivate : t.codes.activate}
                              </Button>
                              <Button small kind="danger" aria-label={`${t.links.remove}: ${code.code}`} onPress={() => setOpen({ view: "delete", code })}>
                                {t.links.remove}
                              </Button>
                            </span>
                          ),
                        },
                      ]
                    : []),
                ]}
              />
              <Pages total={total} capped={capped} />
            </>
          )
        }
      </Loaded>
      {open?.view === "form" && <PromoCodeForm program={program} code={open.code} onClose={close} />}
      {open?.view === "delete" && open.code && <DeleteCode program={program} code={open.code} onClose={close} />}
    </>
  );
}
