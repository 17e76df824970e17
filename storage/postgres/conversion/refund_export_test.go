package conversion

// Statements about refunds whose query plans the tests check.
var (
	SelectParkedForSQL    = selectParkedFor
	SelectDuplicatesSQL   = selectDuplicates
	LockParkedSQL         = lockParkedSQL
	PageParkedSQL         = pageParked
	DropExpiredRefundsSQL = dropExpiredRefunds
)

// LockSaleSQL locks a conversion by the external id of its sale.
var LockSaleSQL = lockConversionByExternalID
