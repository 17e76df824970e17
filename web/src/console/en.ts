import shared from "../i18n/en";
import analytics from "./analytics/en";
import branding from "./branding/en";
import commissions from "./commissions/en";
import conversions from "./conversions/en";
import fraud from "./fraud/en";
import keys from "./keys/en";
import logs from "./logs/en";
import partners from "./partners/en";
import payouts from "./payouts/en";
import programs from "./programs/en";
import search from "./search/en";
import settings from "./settings/en";
import team from "./team/en";
import tracking from "./tracking/en";
import webhooks from "./webhooks/en";

/** The texts of the console in English. de.ts has the same texts in German. Each area has a file of its own. */
const en = {
  ...shared,
  app: {
    name: "Console",
    login: "Log in to the console",
    register: "Create your workspace",
    other: "You are a partner?",
    toOther: "Log in to the partner portal",
    eraseHint:
      "The whole workspace is erased in both modes: the accounts of all members, keys, webhooks, the connection to Stripe, and the data about partners and buyers. Programmes keep their numbers under pseudonyms. This cannot be undone.",
    exportHint:
      "You get a file with the data of the workspace in both modes: settings, members, programmes, partners, clicks of the last 90 days, conversions, commissions, payouts, the ledger and the audit log.",
    exportStart: "Export the workspace",
    noNotificationsHint: "Here you learn about applications, commissions, payouts, webhooks and changes of your workspace.",
    categories: {
      security: "Security",
      account: "Account",
      gdpr: "Personal data",
      partner_applications: "Applications",
      conversions: "Conversions",
      commissions: "Commissions",
      fraud_review: "Fraud and review",
      refunds_disputes: "Refunds and disputes",
      payouts: "Payouts",
      webhook_health: "Webhooks and Stripe",
      weekly_summary: "Weekly summary",
      product_updates: "News of the service",
    },
  },
  errors: {
    ...shared.errors,
    codes: {
      ...shared.errors.codes,
      PARTICIPANT_ERASED: "The data of this partner in the programme was erased, so nothing in it can change.",
      LAST_OWNER: "A workspace needs an owner. Make another member an owner first.",
      SLUG_TAKEN: "Another workspace has this short name. Choose another one.",
      API_KEY_LIMIT_EXCEEDED: "There are too many active keys. Revoke one that you no longer need.",
      SECOND_FACTOR_SETUP_REQUIRED: "Turn on the second factor of your own account first.",
      PERIOD_CLOSED: "The books are closed for this time.",
      RESET_IN_PROGRESS: "The test data is being deleted already.",
      OPERATION_NOT_FOUND: "There is no such erasure, or it ended more than 30 days ago.",
      FEATURE_DISABLED: "The operator of the service has turned this off.",
      ACTIVE_OPERATION_CONFLICT: "An earlier request about this buyer is being repaired. Try again in some minutes.",
    },
  },
  roles: { ...shared.roles, viewer: "Viewer" },
  method: { ...shared.method, manual: "By hand", external: "Outside of the console" },
  areas: {
    analytics: "Analytics",
    overview: "Overview",
    commissions: "Commissions",
    partners: "Partners",
    conversions: "Conversions",
    payouts: "Payouts",
    webhooks: "Webhooks",
    fraud: "Fraud",
    programs: "Programmes",
    settings: "Settings",
  },
  firstWorkspace: {
    title: "Create the first workspace",
    about: "This installation is new. The account that you create here owns the first workspace, and can invite the rest of the team.",
    code: "Set-up code",
    codeHint: "The core writes the code to its log when it starts, as setup_code. It works once.",
    done: "This installation is set up",
    doneHint: "It has a workspace already. Ask its owner for an invitation, or log in.",
  },
  needsSecondFactor: "Your workspace requires a second factor. Until you turn it on, you can only read.",
  stored: "I have stored it",
  conflict: "Somebody else has changed this in the meantime. This is the new state:",
  profile: { account: "Your account", title: "Profile", workspace: "Workspace", role: "Role" },
  filter: {
    program: "Programme",
    all: "All",
    from: "From",
    to: "To",
    search: "Search",
    clear: "Show all",
    csv: "Export as CSV",
  },
  overview: {
    title: "Overview",
    period: "Period",
    days: (days: string) => `Last ${days} days`,
    activity: "Activity",
    revenue: "Revenue",
    commissions: "Commissions",
    times: (times: string) => `${times}×`,
    change: (change: string) => `${change} to the period before`,
    noChange: "No comparison",
    otherCurrencies: (amounts: string) => `In other currencies: ${amounts}`,
    inCurrency: (revenue: string, commissions: string) => `${revenue} revenue, ${commissions} commissions`,
    top: { participant: "Top partners", link: "Top links" },
    name: { participant: "Partner", link: "Link" },
    nothing: "No clicks in this period.",
  },
  toDo: {
    title: "To do",
    none: "Nothing waits for you.",
    applications: "Applications of partners",
    review: "Commissions that need a review",
    fraud: "Suspicious conversions",
    batches: "Payout batches to confirm",
    awaiting: "Payout batches that need a second person",
    webhooks: "Webhooks that fail",
    payable: "Can be paid to partners now",
  },
  setUp: {
    title: "Set up your programme",
    about: "Each step is ticked when the service sees that it is done.",
    done: "Done",
    open: "Open",
    steps: {
      program: { title: "Create a programme and activate it", about: "It says what partners earn, and for how long a click counts." },
      tracking: { title: "Add the script to your site, or connect Stripe", about: "The script registers clicks on partners’ links. Stripe reports sales, renewals and refunds." },
      key: { title: "Create a secret key", about: "Your server reports conversions with it. With Stripe, you do not need one." },
      click: { title: "First click", about: "Open a partner’s link yourself." },
      conversion: { title: "First conversion", about: "Buy something in test mode after the click." },
    },
  },
  fraudRules: {
    self_referral_email: "The buyer has the e-mail address of the partner",
    bot_click: "The click came from a bot",
    same_device_as_partner: "The buyer used the device of the partner",
    self_referral_domain: "The buyer has an e-mail address of the partner’s company",
    blocked_country: "The click came from a blocked country",
    paid_search: "The click came from an ad on a search engine",
    click_to_convert: "The purchase followed the click within 5 seconds",
    conversion_velocity: "The partner had more than 10 conversions in an hour",
    duplicate_customer: "The customer was credited to another partner before",
    same_ip_prefix_as_partner: "The buyer used the network of the partner",
    click_velocity: "More than 100 clicks came from one address in an hour",
    disposable_email: "The buyer has a throw-away e-mail address",
    no_click_signals: "A coupon site was credited by a code without a click",
    refund_rate: "Many of the partner’s sales were refunded",
  },
  analytics,
  commissions,
  conversions,
  fraud,
  partners,
  payouts,
  webhooks,
  ...programs,
  ...tracking,
  keys,
  ...settings,
  search,
  team,
  branding,
  logs,
};

export default en;
