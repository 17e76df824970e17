package conversion

// The tests of plans explain these statements.
const (
	FindByAliasSQL     = findByAlias
	ClaimChargesSQL    = claimCharges
	MarkAppliedSQL     = markApplied
	ReversedChargesSQL = reversedCharges
)
