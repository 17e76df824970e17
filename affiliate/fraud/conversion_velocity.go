package fraud

// MaxConversionsInHour is how many conversions of one partner in an hour are
// nothing special.
const MaxConversionsInHour = 10

var _ = register(Rule{
	Name: "conversion_velocity", Score: 40,
	Description: "The partner has more than 10 conversions within one hour.",
	fires: func(f Facts, _ Settings) string {
		return when(f.ConversionsInHour > MaxConversionsInHour, "The partner had more than 10 conversions within one hour.")
	},
})
