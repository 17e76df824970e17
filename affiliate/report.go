package affiliate

import "time"

// Decide makes a decision of what was found, and the commission that it earns,
// if any. It may refuse, and may be asked more than once.
type Decide = func(found AttributionInputs) (Decision, *Commission, error)

// Report asks for a conversion to be decided about and recorded.
type Report struct {
	Conversion Conversion
	Inputs     AttributionInputs
	// AwaitUntil is how long the conversion's click is awaited; nil: not at all.
	AwaitUntil *time.Time
	Decide     Decide
	// Key is nil where the caller sent none. Answer makes what is kept under it.
	Key    *IdempotencyKey
	Answer func(Recorded) ([]byte, error)
}

// Recorded is what became of a report.
type Recorded struct {
	Conversion Conversion
	Decision   Decision
	Commission *Commission // nil: nothing is earned
	// Replay is the answer that was given under the report's key before; nothing
	// was recorded now.
	Replay []byte
}
