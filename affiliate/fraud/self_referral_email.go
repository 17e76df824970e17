package fraud

var _ = register(Rule{
	Name: "self_referral_email", Score: 100, SelfReferral: true,
	Description: "The buyer's e-mail address is the partner's, or was the partner's before a change. Text after a plus sign, and dots in Gmail addresses, are ignored.",
	evaluate: func(f Facts, _ Settings) string {
		if f.FormerEmail && !f.SameEmail {
			return "The buyer's e-mail address was the partner's before a change."
		}
		return evidenceIf(f.SameEmail, "The buyer's e-mail address is the partner's.")
	},
})
