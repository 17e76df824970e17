package postgres

// The statements whose plans are asserted.
const (
	FindClickSQL     = findClick
	StoredAwaitedSQL = storedAwaited
)
