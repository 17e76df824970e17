import { Area, AreaChart, CartesianGrid, Legend, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";

import { useTexts } from "../../app/texts";
import type { Schemas } from "../data";

/** The clicks and conversions of each day. The page offers the same numbers as a table. */
export default function Chart({ points }: { points: Schemas["AnalyticsPoint"][] }) {
  const { t, f } = useTexts();
  const label = `${t.home.activity}: ${t.home.clicks}, ${t.home.sales}`;
  return (
    <div role="img" aria-label={label}>
      <ResponsiveContainer width="100%" height={220}>
        <AreaChart data={points} margin={{ top: 8, right: 8, bottom: 0, left: -16 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--line)" vertical={false} />
          <XAxis dataKey="start" tickFormatter={(start: string) => f.day(start)} minTickGap={40} stroke="var(--muted)" fontSize={12} tickLine={false} />
          <YAxis allowDecimals={false} stroke="var(--muted)" fontSize={12} tickLine={false} axisLine={false} />
          <Tooltip
            labelFormatter={(start) => f.date(String(start))}
            contentStyle={{ background: "var(--raised)", border: "1px solid var(--line)", borderRadius: 8, color: "var(--text)" }}
          />
          <Legend verticalAlign="top" align="right" iconType="plainline" wrapperStyle={{ fontSize: 14 }} />
          <Area dataKey="clicks" name={t.home.clicks} stroke="var(--accent)" fill="var(--accent-soft)" strokeWidth={2} isAnimationActive={false} />
          <Area dataKey="conversions" name={t.home.sales} stroke="var(--good)" fill="var(--good-soft)" strokeWidth={2} isAnimationActive={false} />
        </AreaChart>
      </ResponsiveContainer>
    </div>
  );
}
