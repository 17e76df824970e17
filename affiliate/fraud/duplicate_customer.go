package fraud

var _ = register(Rule{
	Name: "duplicate_customer", Score: 40,
	Description: "The same customer has converted for another partner of the programme before.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.DuplicateCustomer, "The customer has converted for another partner of the programme before.")
	},
})
