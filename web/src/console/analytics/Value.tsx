import { Link } from "react-aria-components/Link";

import { useParameter } from "../../app/address";
import type { Schemas } from "../../app/data";
import { usePrograms } from "../data";
import { useTexts } from "../texts";

export type Dimension = NonNullable<Schemas["AnalyticsBreakdown"]["groupBy"]>;

/** A value of a dimension, with a link to its record. Those of a programme need the programme that is chosen or the only one. */
export function Value({ dimension, value, label }: { dimension: Dimension; value: string | null; label: string }) {
  const { t, f } = useTexts();
  const [chosen] = useParameter("program");
  const programs = usePrograms().data ?? [];
  const program = chosen || (programs.length === 1 && programs[0]?.id);
  if (value === null) return t.analytics.none;
  switch (dimension) {
    case "program":
      return <Link href={`/programs/${value}`}>{label}</Link>;
    case "participant":
      return <Link href={program ? `/programs/${program}/partners/${value}` : `/partners/${value}`}>{label}</Link>;
    case "link":
    case "promo_code":
      return program ? <Link href={`/programs/${program}?show=${dimension === "link" ? "links" : "codes"}&search=${encodeURIComponent(label)}`}>{label}</Link> : label;
    case "country":
      return f.country(value);
    case "event_type":
      return (t.event as Record<string, string>)[value] ?? label;
    default:
      return label;
  }
}
