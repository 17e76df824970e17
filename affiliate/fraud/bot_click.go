package fraud

var _ = register(Rule{
	Name: "bot_click", Score: 70,
	Description: "The click was made by a bot.",
	fires: func(f Facts, _ Settings) string {
		return when(f.Click != nil && f.Click.Bot, "The click was made by a bot.")
	},
})
