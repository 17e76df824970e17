package fraud

var _ = register(Rule{
	Name: "no_click_signals", Score: 10,
	Description: "A promo code alone attributes the conversion, and the partner is one of the coupon sites.",
	fires: func(f Facts, s Settings) string {
		sites := domains{}
		for _, site := range s.CouponSites {
			sites[site] = true
		}
		return when(f.PromoCodeOnly && sites.has(f.PartnerDomain), "The promo code was used without a click, and its partner is a coupon site.")
	},
})
