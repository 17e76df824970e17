import { createContext, type ReactNode, useContext, useState } from "react";
import {
  Button as AriaButton,
  type ButtonProps as AriaButtonProps,
  CheckboxButton,
  CheckboxField,
  type CheckboxFieldProps,
  Dialog as AriaDialog,
  FieldError,
  Heading,
  Input,
  Label,
  Link,
  type LinkProps,
  ListBox,
  ListBoxItem,
  Modal,
  ModalOverlay,
  Popover,
  Radio,
  RadioGroup,
  type RadioGroupProps,
  Select as AriaSelect,
  type SelectProps,
  SelectValue,
  Text,
  TextArea,
  TextField as AriaTextField,
  type TextFieldProps,
} from "react-aria-components";

import { useTexts } from "../app/texts";
import css from "./kit.module.css";

/**
 * The faults that the service has found in the fields of a form, by the names of the fields. A
 * fault stays until the form is sent again. If it went when the field is left, everything below
 * it would move under the pointer that presses the button.
 */
export const FaultsContext = createContext<Record<string, string>>({});

/** Returns the properties of a field that show its fault. */
function useFault(name: string | undefined) {
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

/** A choice of one of several options, in a menu. */
export function Select({
  label,
  options,
  hint,
  ...props
}: Omit<SelectProps<object, "single">, "children" | "className"> & { label: string; options: [id: string, text: string][]; hint?: ReactNode }) {
  const { isInvalid, fault } = useFault(props.name);
  return (
    <AriaSelect {...props} isInvalid={isInvalid} className={css.field}>
      <Label className={css.label}>{label}</Label>
      <AriaButton className={`${css.input} ${css.selectButton}`}>
        <SelectValue />
        <span aria-hidden>▾</span>
      </AriaButton>
      {hint && (
        <Text slot="description" className={css.hint}>
          {hint}
        </Text>
      )}
      <FieldError className={css.fault}>{fault}</FieldError>
      <Popover className={css.popover}>
        <ListBox className={css.options}>
          {options.map(([id, text]) => (
            <ListBoxItem key={id} id={id} textValue={text} className={css.option}>
              {text}
            </ListBoxItem>
          ))}
        </ListBox>
      </Popover>
    </AriaSelect>
  );
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

/** A choice of one of a few options, which are all shown. */
export function Choice({
  label,
  options,
  ...props
}: Omit<RadioGroupProps, "className" | "children"> & { label: string; options: [value: string, text: string, hint?: string][] }) {
  const { isInvalid, fault } = useFault(props.name);
  return (
    <RadioGroup {...props} isInvalid={isInvalid} className={css.field}>
      <Label className={css.label}>{label}</Label>
      {options.map(([value, text, hint]) => (
        <Radio key={value} value={value} className={`${css.choice} ${css.radio}`}>
          <span>
            {text}
            {hint && <span className={css.hint}> {hint}</span>}
          </span>
        </Radio>
      ))}
      <FieldError className={css.fault}>{fault}</FieldError>
    </RadioGroup>
  );
}

/** A dialog above the page. It closes with Escape. */
export function Dialog({ title, open, onClose, children }: { title: string; open: boolean; onClose: () => void; children: ReactNode }) {
  return (
    <ModalOverlay className={css.overlay} isOpen={open} onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal className={css.modal}>
        <AriaDialog className={css.dialog}>
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
