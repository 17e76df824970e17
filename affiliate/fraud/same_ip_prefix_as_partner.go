package fraud

var _ = register(Rule{
	Name: "same_ip_prefix_as_partner", Score: 40,
	Description: "The partner used its account from the buyer's network within the last 24 hours.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.SameNetwork, "The partner used its account from the buyer's network within 24 hours before.")
	},
})
