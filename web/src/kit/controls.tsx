import { createContext, type ReactNode, useContext, useEffect, useRef, useState } from "react";
import { Button as AriaButton, type ButtonProps as AriaButtonProps } from "react-aria-components/Button";
import { CheckboxButton, CheckboxField, type CheckboxFieldProps } from "react-aria-components/Checkbox";
import { FieldError } from "react-aria-components/FieldError";
import { Input } from "react-aria-components/Input";
import { Label } from "react-aria-components/Label";
import { Link, type LinkProps } from "react-aria-components/Link";
import { Text } from "react-aria-components/Text";
import { TextArea } from "react-aria-components/TextArea";
import { TextField as AriaTextField, type TextFieldProps } from "react-aria-components/TextField";

import { useParameter } from "../app/address";
import { useTexts } from "../app/texts";
import css from "./kit.module.css";

/**
 * The faults that the service has found in the fields of a form, by the names of the fields. A
 * fault stays until the form is sent again. If it went when the field is left, everything below
 * it would move under the pointer that presses the button.
 */
export const FaultsContext = createContext<Record<string, string>>({});

/** Returns the properties of a field that show its fault. */
export function useFault(name: string | undefined) {
  const fault = useContext(FaultsContext)[name ?? ""];
  return { isInvalid: fault !== undefined, fault };
}

type Look = "primary" | "secondary" | "plain" | "danger";

function look(kind: Look, small = false): string {
  return [css.button, css[kind], small && css.small].filter(Boolean).join(" ");
}

export function Button({ kind = "secondary", small, ...props }: AriaButtonProps & { kind?: Look; small?: boolean }) {
  return <AriaButton {...props} className={look(kind, small)} />;
}

/** A link that looks like a button. */
export function LinkButton({ kind = "secondary", small, ...props }: LinkProps & { kind?: Look; small?: boolean }) {
  return <Link {...props} className={look(kind, small)} />;
}

/** A link to another site, which opens in a new tab. */
export function ExternalLink({ href, children }: { href: string; children: ReactNode }) {
  return (
    <a href={href} target="_blank" rel="noreferrer">
      {children}
    </a>
  );
}

type FieldProps = Omit<TextFieldProps, "className"> & {
  label: string;
  hint?: ReactNode;
  /** Whether the field has several lines. */
  lines?: boolean;
  placeholder?: string;
};

export function TextField({ label, hint, lines, placeholder, type, ...props }: FieldProps) {
  const { t } = useTexts();
  const { isInvalid, fault } = useFault(props.name);
  const [shown, setShown] = useState(false);
  const input = lines ? (
    <TextArea className={css.input} placeholder={placeholder} />
  ) : (
    <Input className={css.input} placeholder={placeholder} />
  );
  return (
    <AriaTextField {...props} isInvalid={isInvalid} type={type === "password" && shown ? "text" : type} className={css.field}>
      <Label className={css.label}>{label}</Label>
      {type === "password" ? (
        <div className={css.withAction}>
          {input}
          <Button kind="plain" small aria-pressed={shown} onPress={() => setShown(!shown)}>
            {shown ? t.form.hide : t.form.show}
          </Button>
        </div>
      ) : (
        input
      )}
      {hint && (
        <Text slot="description" className={css.hint}>
          {hint}
        </Text>
      )}
      <FieldError className={css.fault}>{fault}</FieldError>
    </AriaTextField>
  );
}

/** A filter by a text, which is a parameter of the address. The list is loaded when the user stops typing. */
export function SearchField({ parameter = "search", ...props }: Omit<FieldProps, "type" | "value" | "onChange"> & { parameter?: string }) {
  const [search, setSearch] = useParameter(parameter);
  const [text, setText] = useState(search);
  const timer = useRef<ReturnType<typeof setTimeout>>(undefined);
  useEffect(() => setText(search), [search]);
  useEffect(() => () => clearTimeout(timer.current), []);
  const change = (text: string) => {
    setText(text);
    clearTimeout(timer.current);
    timer.current = setTimeout(() => setSearch(text), 300);
  };
  return <TextField {...props} type="search" value={text} onChange={change} />;
}

export function Checkbox({ children, ...props }: Omit<CheckboxFieldProps, "className" | "children"> & { children?: ReactNode }) {
  const { isInvalid, fault } = useFault(props.name);
  return (
    <CheckboxField {...props} isInvalid={isInvalid}>
      <CheckboxButton className={css.choice}>
        <span>{children}</span>
      </CheckboxButton>
      <FieldError className={css.fault}>{fault}</FieldError>
    </CheckboxField>
  );
}
