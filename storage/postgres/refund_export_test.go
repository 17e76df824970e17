package postgres

// The statements of refunds whose plans are asserted.
const (
	RefundsWaitSQL        = refundsWait
	KnownConversionsSQL   = knownConversions
	LockParkedSQL         = lockParkedSQL
	LockSaleSQL           = lockSale
	PageParkedSQL         = pageParked
	DropExpiredRefundsSQL = dropExpiredRefunds
)
