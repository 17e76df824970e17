package affiliate

// ConversionFilter restricts a list of conversions. A conversion must match all fields
// that are set; a zero field matches every conversion.
type ConversionFilter struct {
	// Created is the period in which the conversion was recorded.
	Created               Period
	Attributed            *bool
	EventType             EventType
	ExternalTransactionID string // exact match
	Program               *ProgramID
	Participant           *ParticipantID
}

// ConversionItem is a conversion with its outcome, as lists show it. Decision is the
// decision in force; only the fields that lists show are loaded.
type ConversionItem struct {
	Conversion Conversion
	Decision   Decision
	Commission *Commission // of the decision in force; nil if nothing is earned
	FraudScore int         // 0 to 100
}

// ConversionDetail is a conversion with its outcome and its refunds.
type ConversionDetail struct {
	ConversionItem
	Refunds []Refund // the applied refunds, oldest first
}
