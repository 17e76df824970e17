package fraud

import "slices"

var _ = register(Rule{
	Name: "blocked_country", Score: 50,
	Description: "The click came from one of the blocked countries. The country is only known if the collector has a file of networks and their countries.",
	evaluate: func(f Facts, s Settings) string {
		if f.Click == nil || !slices.Contains(s.BlockedCountries, f.Click.Country) {
			return ""
		}
		return "The click came from a blocked country: " + f.Click.Country + "."
	},
})
