package fraud

// maxConversionsInHour is the greatest number of conversions of one partner within an
// hour for which the rule does not fire.
const maxConversionsInHour = 10

// ExaminedInHour is the number of the partner's latest conversions that the rule examines. They
// are all from the last hour. There is a limit because a merchant may report the sales of a
// whole year at once.
const ExaminedInHour = 200

var _ = register(Rule{
	Name: "conversion_velocity", Score: 40,
	Description: "The partner has more than 10 conversions within one hour.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.ConversionsInHour > maxConversionsInHour, "The partner had more than 10 conversions within one hour.")
	},
})
