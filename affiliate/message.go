package affiliate

// Messages of violations that several packages return.
const (
	IsRequired      = "is required"
	MustBeUUID      = "must be a UUID"
	MustBeEmail     = "must be an e-mail address"
	MustBeWebURL    = "must be an http or https URL"
	MustBeCurrency  = "must be an ISO 4217 currency code of 3 letters"
	MustBeTimezone  = "must be an IANA time zone, for example Europe/Berlin"
	MustBeTimestamp = "must be an RFC 3339 timestamp"
	MustBeInFuture  = "must be in the future"
	// NeedsDestination is the message for website_url of a programme.
	NeedsDestination = "is required without {landing_url} for an active programme"
	MustNotBeEmpty   = "must not be empty"
	MustNotHaveNUL   = "must not contain the NUL character"
	MustBePlainText  = "must not contain ://, www. or characters that change the direction of text"
	MustBePlainName  = "must not contain ://, www., line breaks or characters that change the direction of text"
)

// MustNotBeWith returns the message for a field that must not be set together with the
// field at path.
func MustNotBeWith(path string) string { return "must not be given together with {" + path + "}" }
