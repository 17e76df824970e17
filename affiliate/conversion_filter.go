package affiliate

// ConversionFilter narrows a list of conversions. The zero value of each field
// narrows nothing; what is given has to hold all at once.
type ConversionFilter struct {
	// Created is when the conversion was recorded.
	Created               Period
	Attributed            *bool
	EventType             EventType
	ExternalTransactionID string // exact
	Program               *ProgramID
	Participant           *ParticipantID
}

// ConversionItem is a conversion with its outcome, as lists show it. The
// decision is the one in force, of which only what is shown is read.
type ConversionItem struct {
	Conversion Conversion
	Decision   Decision
	Commission *Commission // of the decision in force; nil: nothing is earned
	FraudScore int         // 0 to 100
}

// ConversionDetail is a conversion with all that is known of it.
type ConversionDetail struct {
	ConversionItem
	Refunds []Refund // that were applied, oldest first
}
