package postgres

// The statements of refunds whose plans are asserted.
const (
	RefundsWaitSQL        = selectParkedFor
	KnownConversionsSQL   = selectDuplicates
	LockParkedSQL         = lockParkedSQL
	LockSaleSQL           = lockSale
	PageParkedSQL         = pageParked
	DropExpiredRefundsSQL = dropExpiredRefunds
)
