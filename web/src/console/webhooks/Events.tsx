import { Choice } from "../../kit/choices";
import { Checkbox } from "../../kit/controls";
import { Loaded } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";
import { useEventTypes } from "./data";
import { groupsOf, toggle } from "./subscriptions";

/** The choice of the events that an endpoint gets: all, those of some kinds, or single ones. */
export function Events({ value, onChange }: { value: string[]; onChange: (value: string[]) => void }) {
  const { t } = useTexts();
  const query = useEventTypes();
  const isAll = value.includes("*");
  const kinds: Record<string, string> = t.webhooks.kinds;
  return (
    <>
      <Choice
        name="scope"
        label={t.webhooks.events}
        options={[
          ["all", t.webhooks.allEvents, t.webhooks.allEventsHint],
          ["some", t.webhooks.someEvents],
        ]}
        value={isAll ? "all" : "some"}
        onChange={(scope) => onChange(scope === "all" ? ["*"] : [])}
      />
      {!isAll && (
        <Loaded query={query}>
          {(types) => (
            <div className={kit.scroll} tabIndex={0} role="group" aria-label={t.webhooks.events}>
              {groupsOf(types).map(({ kind, types }) => {
                const pattern = `${kind}.*`;
                const isWhole = value.includes(pattern);
                return (
                  <div key={kind}>
                    <Checkbox isSelected={isWhole} onChange={(on) => onChange(toggle(value, pattern, on))}>
                      <strong>{t.webhooks.kind(kinds[kind] ?? kind)}</strong>
                    </Checkbox>
                    {!isWhole &&
                      types.map(({ name, description }) => (
                        <Checkbox key={name} isSelected={value.includes(name)} onChange={(on) => onChange(toggle(value, name, on))}>
                          <code className={kit.code}>{name}</code>{" "}
                          <span className={kit.hint} lang="en">
                            {description}
                          </span>
                        </Checkbox>
                      ))}
                  </div>
                );
              })}
            </div>
          )}
        </Loaded>
      )}
    </>
  );
}
