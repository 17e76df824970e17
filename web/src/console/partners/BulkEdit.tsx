import { useCallback, useState } from "react";

import { useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { BulkBar } from "../../kit/page";
import { type Outcome, outcomeOf } from "../bulk";
import { useTexts } from "../texts";
import { tagsOf, useGroups, useReload } from "./data";

interface Props {
  programId: string;
  onDone: (outcome: Outcome) => void;
}

/** The bar that changes the group and the tags of the selected partners. */
export function BulkEdit({
  rows,
  selected,
  onSelect,
  ...props
}: Props & { rows: Schemas["Participant"][]; selected: ReadonlySet<string>; onSelect: (ids: ReadonlySet<string>) => void }) {
  const { t, f } = useTexts();
  const [open, setOpen] = useState(false);
  const chosen = rows.map(({ id }) => id).filter((id) => selected.has(id));
  return (
    <BulkBar
      ids={rows.map(({ id }) => id)}
      selected={selected}
      onSelect={onSelect}
      label={chosen.length > 0 ? t.partners.selected(f.number(chosen.length)) : t.commissions.selectAll}
    >
      <Button isDisabled={chosen.length === 0} onPress={() => setOpen(true)}>
        {t.partners.bulkEdit}
      </Button>
      {open && <EditDialog {...props} ids={chosen} onClose={() => setOpen(false)} />}
    </BulkBar>
  );
}

/** The choice that leaves the group of each partner as it is. */
const same = "same";

function EditDialog({ programId, ids, onDone, onClose }: Props & { ids: string[]; onClose: () => void }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const reload = useReload();
  const groups = useGroups(programId).data ?? [];
  const state = useSubmit(
    useCallback(
      async ({ groupId = same, addTags: added, removeTags: removed }) => {
        const addTags = tagsOf(added);
        const removeTags = tagsOf(removed);
        if (groupId === same && addTags.length + removeTags.length === 0) throw new FieldFault("addTags", t.partners.noChange);
        const body = { participantIds: ids, ...(groupId !== same && { groupId: groupId || null }), addTags, removeTags };
        const result = await api.PATCH("/api/v1/programs/{programId}/partners/bulk-update", { params: { path: { programId } }, body });
        const outcome = outcomeOf(result, ({ participantId }) => participantId);
        await reload();
        onClose();
        onDone(outcome);
      },
      [api, ids, onClose, onDone, programId, reload, t],
    ),
  );
  return (
    <FormDialog title={t.partners.bulkTitle(f.number(ids.length), ids.length === 1)} state={state} label={t.save} onClose={onClose}>
      {groups.length > 0 && (
        <Select
          name="groupId"
          label={t.partners.group}
          hint={t.partners.groupHint}
          options={[[same, t.partners.sameGroup], ["", t.partners.noGroup], ...groups.map(({ id, name }): [string, string] => [id, name])]}
          defaultValue={same}
        />
      )}
      <TextField name="addTags" label={t.partners.addTags} hint={t.partners.tagsHint} autoComplete="off" />
      <TextField name="removeTags" label={t.partners.removeTags} autoComplete="off" />
    </FormDialog>
  );
}
