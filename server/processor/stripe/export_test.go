package stripe

// Exported for tests.
var (
	FromStripe       = fromStripe
	ToStripe         = toStripe
	ConvertFee       = convertFee
	SubscribedEvents = subscribedEvents
	ErrMalformed     = errMalformed
)
