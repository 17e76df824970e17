package fraud

var _ = register(Rule{
	Name: "self_referral_domain", Score: 60, SelfReferral: true,
	Description: "Buyer and partner have e-mail addresses of the same domain, which is not a public mail provider.",
	evaluate: func(f Facts, _ Settings) string {
		same := f.BuyerDomain != "" && f.BuyerDomain == f.PartnerDomain && !freeDomains.contains(f.BuyerDomain)
		return evidenceIf(same, "Buyer and partner have e-mail addresses of the same domain.")
	},
})
