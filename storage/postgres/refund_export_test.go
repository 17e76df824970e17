package postgres

// The statements of refunds whose plans are asserted.
const (
	RefundsWaitSQL        = refundsWait
	LockParkedSQL         = lockParkedSQL
	LockSaleSQL           = lockSale
	PageParkedSQL         = pageParked
	DropExpiredRefundsSQL = dropExpiredRefunds
)
