/**
 * A key for the answers to a question, made from its text: lower-case letters, digits and
 * underscores. It differs from the keys that are taken.
 */
export function keyOf(label: string, taken: ReadonlySet<string>): string {
  const words = label.normalize("NFKD").toLowerCase().replace(/[^a-z0-9]+/g, "_");
  const base = words.replace(/^[_0-9]+/, "").slice(0, 36).replace(/_+$/, "") || "question";
  for (let number = 1; ; number++) {
    const key = number === 1 ? base : `${base}_${number}`;
    if (!taken.has(key)) return key;
  }
}
