package promocode

// Functions that return statements and their arguments. The tests check the query plans
// of the statements.
var (
	PromoCodeListSQL     = promoCodeListSQL
	PromoCodeListArgs    = promoCodeListArgs
	PartnerPromoCodesSQL = partnerPromoCodesSQL
)
