package store

// The statements whose plans the tests check.
const (
	AddToWaitlistSQL = addToWaitlist
	PurgeWaitlistSQL = purgeWaitlist
	PurgeContactsSQL = purgeContacts
	UnmailedSQL      = unmailed
)
