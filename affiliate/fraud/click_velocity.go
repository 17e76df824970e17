package fraud

// MaxClicksInHour is the greatest number of clicks from one IP address within an hour
// for which the rule does not fire. It is high because many people can share one IP
// address.
const MaxClicksInHour = 100

var _ = register(Rule{
	Name: "click_velocity", Score: 30,
	Description: "More than 100 clicks came from the IP address of the click within one hour.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.Click != nil && f.Click.ClicksInHour > MaxClicksInHour, "More than 100 clicks came from the IP address of the click within one hour.")
	},
})
