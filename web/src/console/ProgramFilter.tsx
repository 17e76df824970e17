import { useParameter } from "../app/address";
import { Select } from "../kit/choices";
import { usePrograms } from "./data";
import { useTexts } from "./texts";

/** The filter by programme that is in the address. It is absent if there is only one programme. */
export function ProgramFilter() {
  const { t } = useTexts();
  const programs = usePrograms().data ?? [];
  const [program, setProgram] = useParameter("program", "", "group"); // a group belongs to one programme
  if (programs.length < 2) return null;
  return (
    <Select
      label={t.filter.program}
      options={[["", t.filter.all], ...programs.map(({ id, name }): [string, string] => [id, name])]}
      value={program}
      onChange={(key) => setProgram(String(key))}
    />
  );
}
