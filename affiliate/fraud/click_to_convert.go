package fraud

import "time"

// minToConvert is the least time that a person needs to buy something after a click.
const minToConvert = 5 * time.Second

var _ = register(Rule{
	Name: "click_to_convert", Score: 40,
	Description: "The conversion happened less than 5 seconds after its click.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.Click != nil && 0 <= f.Click.TimeToEvent && f.Click.TimeToEvent < minToConvert, "The conversion happened less than 5 seconds after the click.")
	},
})
