/** The texts about the settings of the workspace in English. */
const en = {
  pages: { tracking: "Tracking and Stripe", keys: "API keys" },
};

export default en;
