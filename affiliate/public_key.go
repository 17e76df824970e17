package affiliate

// PublicKeyTarget is a public key with everything that the collector needs to know
// about it.
type PublicKeyTarget struct {
	APIKey
	// AllowedOrigins are the allowed origins of the workspace. If the list is empty,
	// every origin is allowed.
	AllowedOrigins []string
	// EnforceOrigins says that clicks from other origins are rejected. Otherwise they
	// are recorded and marked.
	EnforceOrigins bool
}
