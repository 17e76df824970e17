package fraud

var _ = register(Rule{
	Name: "disposable_email", Score: 30,
	Description: "The buyer's e-mail address belongs to a provider of throw-away addresses.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(disposableDomains.contains(f.BuyerDomain), "The buyer's e-mail address belongs to a provider of throw-away addresses.")
	},
})
