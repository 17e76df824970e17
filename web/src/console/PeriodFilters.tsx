import type { ReactNode } from "react";

import { useParameter } from "../app/address";
import { Select } from "../kit/choices";
import kit from "../kit/kit.module.css";
import { daysBefore, periods } from "./overview/period";
import { ProgramFilter } from "./ProgramFilter";
import { useTexts } from "./texts";

/** The period and programme in the address, as the API names them. */
export function usePeriod() {
  const { f } = useTexts();
  const [days] = useParameter("days", "30");
  const [programId] = useParameter("program");
  const today = f.isoDay(new Date());
  const length = periods.find((period) => period === days) ?? "30";
  return { dateFrom: daysBefore(today, Number(length) - 1), dateTo: today, timezone: f.timeZone, ...(programId && { programId }) };
}

/** The filters by period and programme, and those of a page. */
export function PeriodFilters({ children }: { children?: ReactNode }) {
  const { t, f } = useTexts();
  const [days, setDays] = useParameter("days", "30");
  return (
    <div className={kit.filters}>
      <Select
        label={t.overview.period}
        options={periods.map((period): [string, string] => [period, t.overview.days(f.number(Number(period)))])}
        value={days}
        onChange={(key) => setDays(String(key))}
      />
      <ProgramFilter />
      {children}
    </div>
  );
}
