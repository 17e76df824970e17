/** The texts about fraud events in English. */
const en = {
  title: "Fraud",
  about: "Conversions that the fraud rules found suspicious.",
  tabs: { open: "Open", confirmed: "Fraud", dismissed: "No fraud" },
  order: "Order",
  partner: "Partner",
  score: "Score",
  found: "Found",
  effect: "Effect",
  created: "Time",
  resolvedAt: "Decided",
  action: { observed: "None", flagged: "Commission needs review", blocked: "No commission" },
  none: "No suspicious conversions",
  noneHint: "The fraud policy of each programme says which rules check its conversions, and what happens then.",
  selected: (count: string) => `${count} selected`,
  confirm: "Fraud",
  dismiss: "No fraud",
  confirmTitle: (count: string) => `Mark ${count} as fraud?`,
  confirmHint: "Pending and approved commissions of these conversions are rejected.",
  dismissTitle: (count: string) => `Mark ${count} as no fraud?`,
  dismissHint: "The commissions no longer need a review because of the fraud rules.",
  note: "Note",
  noteHint: "Only your team sees it.",
  done: (count: string) => `Decided: ${count}.`,
  failed: (count: string) => `Not changed: ${count}. They stay selected.`,
};

export default en;
