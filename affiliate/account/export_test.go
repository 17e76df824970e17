package account

// Contrast returns the contrast of two colours of the form #rrggbb.
func Contrast(a, b string) float64 { return contrast(parseColor(a), parseColor(b)) }
