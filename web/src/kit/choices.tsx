import type { ReactNode } from "react";
import { Button } from "react-aria-components/Button";
import { FieldError } from "react-aria-components/FieldError";
import { Label } from "react-aria-components/Label";
import { ListBox, ListBoxItem } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { Radio, RadioGroup, type RadioGroupProps } from "react-aria-components/RadioGroup";
import { Select as AriaSelect, type SelectProps, SelectValue } from "react-aria-components/Select";
import { Text } from "react-aria-components/Text";

import { useFault } from "./controls";
import css from "./kit.module.css";

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
      <Button className={`${css.input} ${css.selectButton}`}>
        <SelectValue />
        <span aria-hidden>▾</span>
      </Button>
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
