package fraud

var _ = register(Rule{
	Name: "self_referral_email", Score: 100, SelfReferral: true,
	Description: "The buyer's e-mail address is the partner's. Text after a plus sign, and dots in Gmail addresses, are ignored.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.SameEmail, "The buyer's e-mail address is the partner's.")
	},
})
