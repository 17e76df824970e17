package fraud

var _ = register(Rule{
	Name: "disposable_email", Score: 30,
	Description: "The buyer's e-mail address is a throw-away one.",
	fires: func(f Facts, _ Settings) string {
		return when(disposableDomains.has(f.BuyerDomain), "The buyer's e-mail address is of a provider of throw-away addresses.")
	},
})
