import { Area, CartesianGrid, ComposedChart, ResponsiveContainer, Tooltip, XAxis, YAxis } from "recharts";

import type { Schemas } from "../../app/data";
import { useTexts } from "../texts";
import { type Interval, startText } from "./interval";
import { type Measure, measureText } from "./measures";

/** A measure in each interval. The page has the same numbers as a table. */
export default function Chart({ points, measure, currency, interval }: { points: Schemas["AnalyticsPoint"][]; measure: Measure; currency: string; interval: Interval }) {
  const { t, f } = useTexts();
  const { name } = t.analytics.measures[measure];
  const text = (value: number) => measureText(measure, value, currency, t, f);
  return (
    <div role="img" aria-label={t.analytics.chart(name, t.analytics.intervals[interval])}>
      <ResponsiveContainer width="100%" height={260}>
        <ComposedChart data={points} margin={{ top: 8, right: 8, bottom: 0, left: 0 }} accessibilityLayer={false}>
          <CartesianGrid stroke="var(--line)" vertical={false} />
          <XAxis
            dataKey="start"
            tickFormatter={(start: string) => (interval === "month" ? f.month(start) : f.day(start))}
            minTickGap={40}
            stroke="var(--muted)"
            fontSize={12}
            tickLine={false}
          />
          <YAxis tickFormatter={text} stroke="var(--muted)" fontSize={12} tickLine={false} axisLine={false} width="auto" />
          <Tooltip
            labelFormatter={(start) => startText(String(start), interval, f)}
            formatter={(value) => [text(Number(value)), name]}
            contentStyle={{ background: "var(--raised)", border: "1px solid var(--line)", borderRadius: 8, color: "var(--text)" }}
          />
          <Area
            dataKey={measure}
            name={name}
            stroke="var(--accent)"
            fill="var(--accent-soft)"
            strokeWidth={2}
            dot={points.length <= 60 && { r: 2.5, fill: "var(--accent)" }} // a value between two that are null has no line
            isAnimationActive={false}
          />
        </ComposedChart>
      </ResponsiveContainer>
    </div>
  );
}
