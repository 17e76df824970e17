import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { Button } from "react-aria-components/Button";
import { ComboBox, type Key } from "react-aria-components/ComboBox";
import { FieldError } from "react-aria-components/FieldError";
import { Input } from "react-aria-components/Input";
import { Label } from "react-aria-components/Label";
import { ListBox, ListBoxItem } from "react-aria-components/ListBox";
import { Popover } from "react-aria-components/Popover";
import { Text } from "react-aria-components/Text";

import { unwrap, useApp } from "../../app/app";
import { paged } from "../../app/data";
import { useFault } from "../../kit/controls";
import kit from "../../kit/kit.module.css";
import { useTexts } from "../texts";

/** A field that finds an approved partner of a programme by name, e-mail address or code. */
export function PartnerField({
  programId,
  name,
  label,
  hint,
  onChoose,
}: {
  programId: string;
  name: string;
  label: string;
  hint: string;
  onChoose: (participantId: string) => void;
}) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const { isInvalid, fault } = useFault(name);
  const [search, setSearch] = useState("");
  const { data = [] } = useQuery({
    ...paged,
    queryKey: [mode, "partners", programId, "find", search],
    queryFn: async () => {
      const query = { status: "approved" as const, pageSize: 20, ...(search && { search }) };
      return unwrap(await api.GET("/api/v1/programs/{programId}/partners", { params: { path: { programId }, query } })).data;
    },
  });
  return (
    <ComboBox
      className={kit.field}
      items={data}
      inputValue={search}
      onInputChange={setSearch}
      onChange={(key: Key | null) => onChoose(key === null ? "" : String(key))}
      isInvalid={isInvalid}
      allowsEmptyCollection
      menuTrigger="focus"
    >
      <Label className={kit.label}>{label}</Label>
      <div className={kit.withAction}>
        <Input className={kit.input} name={name} />
        <Button className={`${kit.button} ${kit.plain} ${kit.small}`}>
          <span aria-hidden>▾</span>
        </Button>
      </div>
      <Text slot="description" className={kit.hint}>
        {hint}
      </Text>
      <FieldError className={kit.fault}>{fault}</FieldError>
      <Popover className={kit.popover}>
        <ListBox className={kit.options} renderEmptyState={() => <p className={kit.option}>{t.conversions.noneFound}</p>}>
          {(partner: (typeof data)[number]) => (
            <ListBoxItem id={partner.id} textValue={partner.partnerName} className={kit.option}>
              {partner.partnerName} <span className={kit.muted}>{partner.partnerEmail}</span>
            </ListBoxItem>
          )}
        </ListBox>
      </Popover>
    </ComboBox>
  );
}
