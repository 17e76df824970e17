package fraud

var _ = register(Rule{
	Name: "no_click_signals", Score: 10,
	Description: "The conversion has a promo code but no click, and the partner is one of the coupon sites.",
	evaluate: func(f Facts, s Settings) string {
		sites := domainSet{}
		for _, site := range s.CouponSites {
			sites[site] = true
		}
		return evidenceIf(f.PromoCodeOnly && sites.contains(f.PartnerDomain), "The promo code was used without a click, and its partner is a coupon site.")
	},
})
