package fraud

// MaxConversionsInHour is the greatest number of conversions of one partner within an
// hour for which the rule does not fire.
const MaxConversionsInHour = 10

// ExaminedInHour is the number of the partner's conversions, the last ones that were reported
// within an hour, among which the rule looks for those that occurred within an hour.
const ExaminedInHour = 200

var _ = register(Rule{
	Name: "conversion_velocity", Score: 40,
	Description: "The partner has more than 10 conversions within one hour.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.ConversionsInHour > MaxConversionsInHour, "The partner had more than 10 conversions within one hour.")
	},
})
