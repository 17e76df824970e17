package postgres

// The statements whose plans are asserted, and the size of their batches.
const (
	PurgeDaySQL        = purgeDay
	PurgeStraySQL      = purgeStray
	DropDeadLettersSQL = dropDeadLetters
	RetentionBatch     = retentionBatch
)
