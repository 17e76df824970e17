package fraud

var _ = register(Rule{
	Name: "bot_click", Score: 70,
	Description: "The click was made by a bot.",
	evaluate: func(f Facts, _ Settings) string {
		return evidenceIf(f.Click != nil && f.Click.Bot, "The click was made by a bot.")
	},
})
