package fraud

// MaxClicksInHour is the greatest number of clicks from one address in an hour that is
// not suspicious. Many people can share one address.
const MaxClicksInHour = 100

var _ = register(Rule{
	Name: "click_velocity", Score: 30,
	Description: "More than 100 clicks came from the click's address within one hour.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.Click != nil && f.Click.ClicksInHour > MaxClicksInHour, "More than 100 clicks came from the address of the click within one hour.")
	},
})
