import { Area, Bar, CartesianGrid, ComposedChart, Legend, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";

import type { Amount, Period } from "./Activity";
import { useTexts } from "./texts";

/**
 * The clicks, conversions and amount of each day. The amounts are those in one currency, and have a
 * scale of their own. The page offers the same numbers as a table.
 */
export default function Chart({ title, points, currency, amount }: { title: string; points: Period["points"]; currency: string; amount: Amount }) {
  const { t, f } = useTexts();
  const label = `${title}: ${t.activity.clicks}, ${t.activity.conversions}, ${amount.name}`;
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
            formatter={(value, name, { dataKey }) => [dataKey === amount.field ? f.money(Number(value), currency) : f.number(Number(value)), name]}
            contentStyle={{ background: "var(--raised)", border: "1px solid var(--line)", borderRadius: 8, color: "var(--text)" }}
          />
          <Legend verticalAlign="top" align="right" iconType="rect" wrapperStyle={{ fontSize: 14, paddingBottom: 12 }} />
          <Bar
            yAxisId="money"
            dataKey={amount.field}
            name={`${amount.name} (${currency})`}
            fill="var(--warn)"
            fillOpacity={0.3}
            isAnimationActive={false}
          />
          <Area dataKey="clicks" name={t.activity.clicks} stroke="var(--accent)" fill="var(--accent-soft)" strokeWidth={2} isAnimationActive={false} />
          <Area dataKey="conversions" name={t.activity.conversions} stroke="var(--good)" fill="var(--good-soft)" strokeWidth={2} isAnimationActive={false} />
        </ComposedChart>
      </ResponsiveContainer>
    </div>
  );
}
