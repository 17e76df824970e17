import { Area, Bar, CartesianGrid, ComposedChart, Legend, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";

import { useTexts } from "../../app/texts";
import type { Schemas } from "../data";

/**
 * The clicks, conversions and earnings of each day. The earnings are those in one currency, and have a
 * scale of their own. The page offers the same numbers as a table.
 */
export default function Chart({ points, currency }: { points: Schemas["AnalyticsPoint"][]; currency: string }) {
  const { t, f } = useTexts();
  const label = `${t.home.activity}: ${t.home.clicks}, ${t.home.sales}, ${t.home.earnings}`;
  return (
    <div role="img" aria-label={label}>
      <ResponsiveContainer width="100%" height={220}>
        <ComposedChart data={points} margin={{ top: 8, right: 0, bottom: 0, left: -16 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--line)" vertical={false} />
          <XAxis dataKey="start" tickFormatter={(start: string) => f.day(start)} minTickGap={40} stroke="var(--muted)" fontSize={12} tickLine={false} />
          <YAxis allowDecimals={false} stroke="var(--muted)" fontSize={12} tickLine={false} axisLine={false} />
          <YAxis
            yAxisId="money"
            orientation="right"
            tickFormatter={(cents: number) => f.money(cents, currency)}
            stroke="var(--muted)"
            fontSize={12}
            tickLine={false}
            axisLine={false}
            width="auto"
          />
          <Tooltip
            labelFormatter={(start) => f.date(String(start))}
            formatter={(value, name, { dataKey }) => [dataKey === "commissionCents" ? f.money(Number(value), currency) : f.number(Number(value)), name]}
            contentStyle={{ background: "var(--raised)", border: "1px solid var(--line)", borderRadius: 8, color: "var(--text)" }}
          />
          <Legend verticalAlign="top" align="right" iconType="rect" wrapperStyle={{ fontSize: 14, paddingBottom: 12 }} />
          <Bar
            yAxisId="money"
            dataKey="commissionCents"
            name={`${t.home.earnings} (${currency})`}
            fill="var(--warn)"
            fillOpacity={0.3}
            isAnimationActive={false}
          />
          <Area dataKey="clicks" name={t.home.clicks} stroke="var(--accent)" fill="var(--accent-soft)" strokeWidth={2} isAnimationActive={false} />
          <Area dataKey="conversions" name={t.home.sales} stroke="var(--good)" fill="var(--good-soft)" strokeWidth={2} isAnimationActive={false} />
        </ComposedChart>
      </ResponsiveContainer>
    </div>
  );
}
