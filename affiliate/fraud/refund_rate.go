package fraud

import "strconv"

const (
	// RecentConversions are how many of a partner's last conversions are looked at;
	// fewer say nothing.
	RecentConversions = 20
	// maxRefundedPercent of them may be refunded.
	maxRefundedPercent = 30
)

var _ = register(Rule{
	Name: "refund_rate", Score: 0,
	Description: "More than 30 % of the partner's last 20 conversions were refunded. It asks for review.",
	fires: func(f Facts, _ Settings) string {
		if f.Recent < RecentConversions || f.Refunded*100 <= maxRefundedPercent*f.Recent {
			return ""
		}
		return strconv.Itoa(f.Refunded) + " of the partner's last " + strconv.Itoa(f.Recent) + " conversions were refunded."
	},
})
