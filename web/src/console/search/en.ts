/** The texts of the search in English. */
const en = {
  open: "Search (Ctrl K)",
  title: "Search",
  hint: "Name, e-mail address, code, order number or id",
  about: "Type at least two characters.",
  results: "Results",
  none: "Nothing was found.",
  kinds: {
    partner: "Partners",
    program: "Programmes",
    promo_code: "Promo codes",
    link: "Links",
    commission: "Commissions",
    conversion: "Conversions",
    payout: "Payouts",
    payout_batch: "Batches of payouts",
    webhook: "Webhooks",
  },
};

export default en;
