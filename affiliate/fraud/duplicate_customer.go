package fraud

var _ = register(Rule{
	Name: "duplicate_customer", Score: 40,
	Description: "The same customer has converted for another partner of the programme before.",
	fires: func(f Facts, _ Settings) string {
		return when(f.BroughtByAnother, "The customer has converted for another partner of the programme before.")
	},
})
