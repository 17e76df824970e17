package fraud

import "strconv"

const (
	// RecentConversions is the number of a partner's latest conversions that the rule
	// examines. If the partner has fewer conversions, the rule does not fire.
	RecentConversions = 20
	// maxRefundedPercent is the greatest percentage of refunded conversions for which
	// the rule does not fire.
	maxRefundedPercent = 30
)

var _ = register(Rule{
	Name: "refund_rate", Score: 0,
	Description: "More than 30 % of the partner's last 20 conversions were refunded. The rule has no score, but the commission needs review.",
	evaluate: func(f Facts, _ Settings) string {
		if f.ExaminedConversions < RecentConversions || f.RefundedConversions*100 <= maxRefundedPercent*f.ExaminedConversions {
			return ""
		}
		return strconv.Itoa(f.RefundedConversions) + " of the partner's last " + strconv.Itoa(f.ExaminedConversions) + " conversions were refunded."
	},
})
