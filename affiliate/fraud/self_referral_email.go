package fraud

var _ = register(Rule{
	Name: "self_referral_email", Score: 100, SelfReferral: true,
	Description: "The buyer's e-mail address is the partner's, also with something behind a plus sign or, at Gmail, other dots.",
	fires: func(f Facts, _ Settings) string {
		return when(f.SameAddress, "The buyer's e-mail address is the partner's.")
	},
})
