package fraud

var _ = register(Rule{
	Name: "self_referral_domain", Score: 60, SelfReferral: true,
	Description: "Buyer and partner have e-mail addresses of one domain that is no public mail provider's.",
	fires: func(f Facts, _ Settings) string {
		same := f.BuyerDomain != "" && f.BuyerDomain == f.PartnerDomain && !freeDomains.has(f.BuyerDomain)
		return when(same, "Buyer and partner have e-mail addresses of the same domain.")
	},
})
