/** A changed field of a record. An absent value means that the record is new, was deleted, or that the field had none. */
export interface Change {
  /** The name of the field. A field inside of it has a point before its name. */
  field: string;
  before: unknown;
  after: unknown;
}

type Values = Record<string, unknown> | null;

/** The changed fields of an entry of the audit log, with their old and new values. */
export function changesOf(before: Values, after: Values): Change[] {
  const [old, now] = [flat(before), flat(after)];
  return [...new Set([...old.keys(), ...now.keys()])]
    .map((field) => ({ field, before: old.get(field), after: now.get(field) }))
    .filter((change) => JSON.stringify(change.before) !== JSON.stringify(change.after));
}

/** The values by the paths of their fields. Lists are values. */
function flat(values: Values, path = ""): Map<string, unknown> {
  return new Map(
    Object.entries(values ?? {}).flatMap(([name, value]) =>
      typeof value === "object" && value !== null && !Array.isArray(value) ? [...flat(value as Values, `${path}${name}.`)] : [[path + name, value] as const],
    ),
  );
}
