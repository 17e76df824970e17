import { useQuery } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import { Button, ExternalLink, TextField } from "../../kit/controls";
import { Done, Loaded, Notice } from "../../kit/feedback";
import { useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Facts, Stat, Stats } from "../../kit/page";
import { useCan } from "../can";
import { daysBefore } from "../overview/period";
import { useTexts } from "../texts";
import { lines, type Program, rateOf, useReload, useUpdate } from "./data";
import { ProgramBadge } from "./Programs";

/** What a programme does now: its status, its numbers, and where its links lead. */
export function ProgramOverview({ program }: { program: Program }) {
  return (
    <>
      <Status program={program} />
      <Numbers program={program} />
      <General program={program} />
    </>
  );
}

type Move = "activate" | "pause" | "archive";

/** The moves that are possible from each status. */
const moves: Record<NonNullable<Program["status"]>, Move[]> = {
  draft: ["activate", "archive"],
  active: ["pause", "archive"],
  paused: ["activate", "archive"],
  archived: [],
};

function Status({ program }: { program: Program }) {
  const { t } = useTexts();
  const can = useCan();
  const [move, setMove] = useState<Move | null>(null);
  const [done, setDone] = useState("");
  const { status, websiteUrl, landingUrl } = program;
  if (!status) return null;
  const isReady = status !== "draft" || !!(websiteUrl ?? landingUrl);
  return (
    <Card title={t.programs.status} action={<ProgramBadge program={program} />}>
      {done && <Done key={done}>{done}</Done>}
      <p>{t.programs.statusHint[status]}</p>
      {!isReady && <Notice tone="warn">{t.programs.needsWebsite}</Notice>}
      {can("ActivateProgram") && moves[status].length > 0 && (
        <div className={kit.actions}>
          {moves[status].map((move) => (
            <Button key={move} kind={move === "activate" ? "primary" : move === "archive" ? "danger" : "secondary"} isDisabled={move === "activate" && !isReady} onPress={() => setMove(move)}>
              {t.programs.move[move].action}
            </Button>
          ))}
        </div>
      )}
      {move && <MoveDialog program={program} move={move} onDone={() => setDone(t.programs.move[move].done)} onClose={() => setMove(null)} />}
    </Card>
  );
}

function MoveDialog({ program, move, onDone, onClose }: { program: Program; move: Move; onDone: () => void; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const texts = t.programs.move[move];
  const state = useSubmit(
    useCallback(async () => {
      const params = { path: { programId: program.id } };
      try {
        if (move === "activate") unwrap(await api.POST("/api/v1/programs/{programId}/activate", { params }));
        else if (move === "pause") unwrap(await api.POST("/api/v1/programs/{programId}/pause", { params }));
        else unwrap(await api.POST("/api/v1/programs/{programId}/archive", { params }));
      } finally {
        await reload();
      }
      onDone();
      onClose();
    }, [api, move, onClose, onDone, program.id, reload]),
  );
  return (
    <FormDialog title={texts.title(program.name)} state={state} label={texts.action} kind={move === "archive" ? "danger" : "primary"} onClose={onClose}>
      <p>{texts.effect}</p>
    </FormDialog>
  );
}

function Numbers({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const { t, f } = useTexts();
  const query = useQuery({
    queryKey: [mode, "programs", program.id, "numbers"],
    queryFn: async () => {
      const dateTo = f.isoDay(new Date());
      const period = { dateFrom: daysBefore(dateTo, 29), dateTo, timezone: f.timeZone };
      const path = { programId: program.id };
      const [summary, partners] = await Promise.all([
        api.GET("/api/v1/programs/{programId}/analytics/summary", { params: { path, query: period } }),
        api.GET("/api/v1/programs/{programId}/partners", { params: { path, query: { status: "approved", pageSize: 1 } } }),
      ]);
      return { summary: unwrap(summary), partners: unwrap(partners).total };
    },
  });
  return (
    <Card title={t.overview.days(f.number(30))}>
      <Loaded query={query}>
        {({ summary: { metrics, currency }, partners }) => (
          <Stats>
            <Stat name={t.programs.partners} value={f.number(partners)} />
            <Stat name={t.programs.clicks} value={f.number(metrics?.clicks ?? 0)} />
            <Stat name={t.programs.conversions} value={f.number(metrics?.conversions ?? 0)} />
            <Stat name={t.overview.revenue} value={f.money(metrics?.revenueCents ?? 0, currency)} />
            <Stat name={t.overview.commissions} value={f.money(metrics?.commissionCents ?? 0, currency)} />
          </Stats>
        )}
      </Loaded>
    </Card>
  );
}

/** Name, currency, and where the links lead. */
function General({ program }: { program: Program }) {
  const { t, f } = useTexts();
  const can = useCan();
  const [editing, setEditing] = useState(false);
  const { name, currency, websiteUrl, landingUrl, allowedDomains, linkParam, status } = program;
  const edit = can("UpdateProgram") && status !== "archived" && (
    <Button small onPress={() => setEditing(true)}>
      {t.programs.edit}
    </Button>
  );
  return (
    <Card title={t.programs.general} action={edit}>
      <Facts
        rows={[
          [t.programs.rateName, rateOf(program, t, f)],
          [t.programs.currency, currency],
          [t.programs.website, websiteUrl && <ExternalLink href={websiteUrl}>{websiteUrl}</ExternalLink>],
          [t.programs.landing, landingUrl && <ExternalLink href={landingUrl}>{landingUrl}</ExternalLink>],
          [t.programs.domains, allowedDomains.join(", ")],
          [t.programs.linkParam, linkParam],
        ]}
      />
      {editing && <EditGeneral key={name} program={program} onClose={() => setEditing(false)} />}
    </Card>
  );
}

function EditGeneral({ program, onClose }: { program: Program; onClose: () => void }) {
  const { t } = useTexts();
  const update = useUpdate(program);
  const state = useSubmit(
    useCallback(
      async ({ name = "", currency = "", websiteUrl, landingUrl, allowedDomains, linkParam }) => {
        await update({
          name,
          ...(currency.toUpperCase() !== program.currency && { currency: currency.toUpperCase() }),
          websiteUrl: websiteUrl || null,
          landingUrl: landingUrl || null,
          allowedDomains: lines(allowedDomains),
          linkParam: linkParam || null,
        });
        onClose();
      },
      [onClose, program.currency, update],
    ),
  );
  return (
    <FormDialog title={t.programs.general} state={state} label={t.save} onClose={onClose}>
      <TextField name="name" label={t.form.name} hint={t.programs.nameHint} defaultValue={program.name} maxLength={100} isRequired />
      <TextField name="currency" label={t.programs.currency} hint={t.programs.currencyHint} defaultValue={program.currency} maxLength={3} isRequired />
      <TextField name="websiteUrl" type="url" label={t.programs.website} hint={t.programs.websiteHint} defaultValue={program.websiteUrl ?? ""} maxLength={2048} />
      <TextField name="landingUrl" type="url" label={`${t.programs.landing} (${t.form.optional})`} hint={t.programs.landingHint} defaultValue={program.landingUrl ?? ""} maxLength={2048} />
      <TextField name="allowedDomains" lines label={t.programs.domains} hint={t.programs.domainsHint} defaultValue={program.allowedDomains.join("\n")} />
      <TextField name="linkParam" label={t.programs.linkParam} hint={t.programs.linkParamHint} defaultValue={program.linkParam} maxLength={32} />
    </FormDialog>
  );
}
