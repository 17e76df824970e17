package account

// PublicKeyTarget is a public key with the data that the collector needs to handle
// requests with this key.
type PublicKeyTarget struct {
	APIKey
	// AllowedOrigins are the allowed origins of the workspace. If the list is empty,
	// every origin is allowed.
	AllowedOrigins []string
	// EnforceOrigins says that clicks from origins that are not allowed are rejected.
	// Otherwise these clicks are recorded and marked.
	EnforceOrigins bool
	// RequireOrigin says that clicks without an origin are rejected too.
	RequireOrigin bool
}
