package postgres

// Statements about refunds whose plans are checked.
const (
	SelectParkedForSQL    = selectParkedFor
	SelectDuplicatesSQL   = selectDuplicates
	LockParkedSQL         = lockParkedSQL
	LockSaleSQL           = lockSale
	PageParkedSQL         = pageParked
	DropExpiredRefundsSQL = dropExpiredRefunds
)
