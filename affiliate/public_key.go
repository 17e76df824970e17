package affiliate

// PublicKeyTarget is a public key with all that the edge needs to know of it.
type PublicKeyTarget struct {
	APIKey
	// AllowedOrigins are the workspace's; none: no page is foreign.
	AllowedOrigins []string
	// EnforceOrigins says that clicks of other pages are refused, or else marked.
	EnforceOrigins bool
}
