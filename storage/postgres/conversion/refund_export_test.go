package conversion

// Statements about refunds whose query plans the tests check.
const (
	SelectParkedForSQL    = selectParkedFor
	SelectDuplicatesSQL   = selectDuplicates
	LockParkedSQL         = lockParkedSQL
	LockSaleSQL           = lockConversionByExternalID
	PageParkedSQL         = pageParked
	DropExpiredRefundsSQL = dropExpiredRefunds
)
