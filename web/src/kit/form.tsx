import { type FormEvent, type ReactNode, useCallback, useState } from "react";
import { Form as AriaForm } from "react-aria-components/Form";

import { TributaryError } from "../app/app";
import { Button, FaultsContext } from "./controls";
import { Failure } from "./feedback";
import css from "./kit.module.css";

type Faults = Record<string, string>;

/** A fault of a field that the page itself has found. The action of a form throws it. */
export class FieldFault extends Error {
  constructor(
    readonly field: string,
    message: string,
  ) {
    super(message);
  }
}

/**
 * Returns what a form needs to call the API: submit calls action with the form's values, and
 * while it runs, pending is true. If the service refuses fields, they are in faults, and
 * otherwise the failure is in error.
 */
export function useSubmit(action: (values: Record<string, string>) => Promise<void>) {
  const [pending, setPending] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [faults, setFaults] = useState<Faults>({});
  const submit = useCallback(
    async (event: FormEvent<HTMLFormElement>) => {
      event.preventDefault();
      if (pending) return;
      const form = event.currentTarget;
      const values: Record<string, string> = {};
      for (const [name, value] of new FormData(form)) values[name] = String(value);
      setPending(true);
      setError(null);
      setFaults({});
      try {
        await action(values);
      } catch (error) {
        const found = faultsOf(error);
        const known = Object.fromEntries(Object.entries(found).filter(([name]) => form.elements.namedItem(name)));
        setFaults(known);
        const first = Array.from(form.elements).find((element) => element instanceof HTMLElement && (element.getAttribute("name") ?? "") in known);
        if (first instanceof HTMLElement) first.focus();
        if (Object.keys(found).length === 0 || Object.keys(known).length < Object.keys(found).length) setError(error);
      } finally {
        setPending(false);
      }
    },
    [action, pending],
  );
  return { submit, pending, error, faults, setError };
}

/** The sentences of the service begin with the name of the field, which the label says already. */
function faultsOf(error: unknown): Faults {
  if (error instanceof FieldFault) return { [error.field]: error.message };
  const faults: Faults = {};
  if (error instanceof TributaryError) {
    for (const { field, message } of error.details) {
      const sentence = message.startsWith(field) ? message.slice(field.length).trim() : message;
      faults[field] ??= sentence.charAt(0).toUpperCase() + sentence.slice(1);
    }
  }
  return faults;
}

/** A form whose last element is the button that sends it. */
export function Form({
  state,
  label,
  kind = "primary",
  secondary,
  children,
}: {
  state: ReturnType<typeof useSubmit>;
  /** The text of the button. */
  label: string;
  kind?: "primary" | "danger";
  /** Further buttons. */
  secondary?: ReactNode;
  children?: ReactNode;
}) {
  return (
    <AriaForm className={css.form} onSubmit={(event) => void state.submit(event)} validationBehavior="aria">
      {state.error !== null && <Failure error={state.error} />}
      <FaultsContext value={state.faults}>{children}</FaultsContext>
      <div className={css.actions}>
        <Button type="submit" kind={kind} isPending={state.pending}>
          {label}
        </Button>
        {secondary}
      </div>
    </AriaForm>
  );
}
