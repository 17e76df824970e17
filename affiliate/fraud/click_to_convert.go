package fraud

import "time"

// minToConvert is how long nobody needs less than to buy after a click.
const minToConvert = 5 * time.Second

var _ = register(Rule{
	Name: "click_to_convert", Score: 40,
	Description: "The conversion happened less than 5 seconds after its click.",
	fires: func(f Facts, _ Settings) string {
		return when(f.Click != nil && 0 <= f.Click.ToEvent && f.Click.ToEvent < minToConvert, "The conversion happened less than 5 seconds after the click.")
	},
})
