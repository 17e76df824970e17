package conversion

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/attribution"
	"github.com/tributary-hq/tributary/affiliate/commission"
)

// Filter restricts a list of conversions. A conversion must match all fields
// that are set; a zero field matches every conversion.
type Filter struct {
	// Created is the period in which the conversion was recorded.
	Created               affiliate.Period
	Attributed            *bool
	EventType             affiliate.EventType
	ExternalTransactionID string // exact match
	Program               *affiliate.ProgramID
	Participant           *affiliate.ParticipantID
}

// Item is a conversion with its outcome, as lists show it. Decision is the
// decision in force; only the fields that lists show are loaded.
type Item struct {
	Conversion Conversion
	Decision   attribution.Decision
	Commission *commission.Commission // of the decision in force; nil if nothing is earned
	FraudScore int                    // 0 to 100
}

// Detail is a conversion with its outcome and its refunds.
type Detail struct {
	Item
	Refunds []Refund // the applied refunds, oldest first
}
