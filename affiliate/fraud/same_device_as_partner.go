package fraud

var _ = register(Rule{
	Name: "same_device_as_partner", Score: 60,
	Description: "The partner used its account with the buyer's browser from the buyer's network within the last 30 days.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.SameDevice, "The partner used its account with the same browser from the same network as the buyer.")
	},
})
