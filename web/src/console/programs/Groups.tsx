import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { decimal, exponent, minorUnits } from "../../i18n/format";
import { Choice } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { Dialog } from "../../kit/dialog";
import { Empty, Loaded, Notice } from "../../kit/feedback";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import kit from "../../kit/kit.module.css";
import { Card, Table } from "../../kit/page";
import { useCan } from "../can";
import { useGroups } from "../partners/data";
import { rateText } from "../rate";
import { useTexts } from "../texts";
import { type Program, useReload } from "./data";

type Group = Schemas["Group"];

/** The groups of a programme. The partners of a group have a common rate. */
export function Groups({ program }: { program: Program }) {
  const { t, f } = useTexts();
  const can = useCan();
  const query = useGroups(program.id);
  const [open, setOpen] = useState<{ view: "form" | "delete"; group: Group | null } | null>(null);
  const close = () => setOpen(null);
  const canChange = can("CreateGroup") && program.status !== "archived";
  const create = canChange && (
    <Button kind="primary" onPress={() => setOpen({ view: "form", group: null })}>
      {t.groups.create}
    </Button>
  );
  return (
    <>
      <div className={kit.cardHead}>
        <p className={kit.muted}>{t.groups.about}</p>
        {create}
      </div>
      <Loaded query={query}>
        {(groups) =>
          groups.length === 0 ? (
            <Card>
              <Empty title={t.groups.none}>{t.groups.noneHint}</Empty>
            </Card>
          ) : (
            <Table
              caption={t.programs.tabs.groups}
              rows={groups}
              columns={[
                { name: t.groups.name, cell: (group) => group.name, lead: true },
                { name: t.programs.rateName, cell: (group) => rateText(group, program.currency, f), number: true },
                { name: t.programs.partners, cell: (group) => f.number(group.participants), number: true },
                ...(canChange
                  ? [
                      {
                        name: t.links.action,
                        cell: (group: Group) => (
                          <span className={kit.actions}>
                            <Button small aria-label={`${t.programs.edit}: ${group.name}`} onPress={() => setOpen({ view: "form", group })}>
                              {t.programs.edit}
                            </Button>
                            <Button small kind="danger" aria-label={`${t.links.remove}: ${group.name}`} onPress={() => setOpen({ view: "delete", group })}>
                              {t.links.remove}
                            </Button>
                          </span>
                        ),
                      },
                    ]
                  : []),
              ]}
            />
          )
        }
      </Loaded>
      {open?.view === "form" && <GroupForm program={program} group={open.group} onClose={close} />}
      {open?.view === "delete" && open.group && <DeleteGroup program={program} group={open.group} onClose={close} />}
    </>
  );
}

function GroupForm({ program, group, onClose }: { program: Program; group: Group | null; onClose: () => void }) {
  const { api } = useApp();
  const { t } = useTexts();
  const reload = useReload();
  const digits = exponent(program.currency);
  const [kind, setKind] = useState<"percentage" | "flat">(group && group.percentage === null ? "flat" : "percentage");
  const field = kind === "flat" ? "flatAmountCents" : "percentage";
  const state = useSubmit(
    useCallback(
      async (values) => {
        const cents = minorUnits(values[field] ?? "", kind === "flat" ? digits : 2);
        if (cents === null) throw new FieldFault(field, t.form.amountWrong);
        const body = { name: values.name ?? "", ...(kind === "flat" ? { flatAmountCents: cents } : { percentage: cents / 100 }) };
        const path = { programId: program.id };
        if (group) unwrap(await api.PATCH("/api/v1/programs/{programId}/groups/{groupId}", { params: { path: { ...path, groupId: group.id } }, body }));
        else unwrap(await api.POST("/api/v1/programs/{programId}/groups", { params: { path }, body }));
        await reload();
        onClose();
      },
      [api, digits, field, group, kind, onClose, program.id, reload, t],
    ),
  );
  const rate = kind === "percentage" ? (group?.percentage ?? "") : group?.flatAmountCents === null || !group ? "" : decimal(group.flatAmountCents, digits);
  return (
    <FormDialog title={group ? group.name : t.groups.create} state={state} label={t.save} onClose={onClose}>
      <TextField name="name" label={t.groups.name} hint={t.groups.nameHint} defaultValue={group?.name ?? ""} maxLength={100} isRequired />
      <Choice
        label={t.rules.rate}
        options={[
          ["percentage", t.rules.percentage],
          ["flat", t.rules.flat],
        ]}
        value={kind}
        onChange={(value) => setKind(value as typeof kind)}
      />
      <TextField
        key={kind}
        name={field}
        inputMode="decimal"
        label={kind === "flat" ? t.rules.amountIn(program.currency) : t.rules.percent}
        hint={t.groups.rateHint}
        defaultValue={String(rate)}
        isRequired
      />
    </FormDialog>
  );
}

function DeleteGroup({ program, group, onClose }: { program: Program; group: Group; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/programs/{programId}/groups/{groupId}", { params: { path: { programId: program.id, groupId: group.id } } }));
      await reload();
      onClose();
    }, [api, group.id, onClose, program.id, reload]),
  );
  const title = t.groups.deleteTitle(group.name);
  if (group.participants > 0) {
    return (
      <Dialog title={title} open onClose={onClose}>
        <Notice tone="warn">{t.groups.inUse(f.number(group.participants))}</Notice>
        <div className={kit.actions}>
          <Button onPress={onClose}>{t.close}</Button>
        </div>
      </Dialog>
    );
  }
  return (
    <FormDialog title={title} state={state} label={t.links.remove} kind="danger" onClose={onClose}>
      <p>{t.groups.deleteHint}</p>
    </FormDialog>
  );
}
