import type { Schemas } from "../../app/data";

type EventType = Schemas["EventTypeInfo"];

/** The kind of an event: the part of its name before the dot. */
function kindOf(name: string): string {
  return name.slice(0, name.indexOf("."));
}

/** The event types by their kinds, in the order of the service. */
export function groupsOf(types: EventType[]): { kind: string; types: EventType[] }[] {
  const kinds = [...new Set(types.map(({ name }) => kindOf(name)))];
  return kinds.map((kind) => ({ kind, types: types.filter(({ name }) => kindOf(name) === kind) }));
}

/** Subscribes to an event or a pattern such as commission.*, or ends it. A pattern replaces the single events of its kind. */
export function toggle(subscriptions: string[], name: string, on: boolean): string[] {
  const others = subscriptions.filter((other) => other !== name && !(name.endsWith(".*") && kindOf(other) === kindOf(name)));
  return on ? [...others, name] : others;
}
