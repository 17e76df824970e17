package fraud

var _ = register(Rule{
	Name: "self_referral_email", Score: 100, SelfReferral: true,
	Description: "The buyer's e-mail address is the partner's, also with other dots or behind a plus sign.",
	fires: func(f Facts, _ Settings) string {
		return when(f.SameAddress, "The buyer's e-mail address is the partner's.")
	},
})
