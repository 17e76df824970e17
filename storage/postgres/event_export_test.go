package postgres

// The statements whose plans are asserted.
const (
	LockConvertedSQL  = lockConverted
	StampConvertedSQL = stampConverted
)
