package fraud

// MaxClicksInHour is how many clicks from one address in an hour are nothing
// special: many people can stand behind one.
const MaxClicksInHour = 100

var _ = register(Rule{
	Name: "click_velocity", Score: 30,
	Description: "More than 100 clicks came from the click's address within one hour.",
	fires: func(f Facts, _ Settings) string {
		return when(f.Click != nil && f.Click.InHour > MaxClicksInHour, "More than 100 clicks came from the address of the click within one hour.")
	},
})
