package affiliate

import (
	"bytes"
	"cmp"
)

// Mode is one of the two isolated parts of a workspace
// (docs/merchant/authentication.md#modes). Everything that belongs to a programme has the
// programme's mode.
type Mode string

// The two modes. The database and the API use these values.
const (
	ModeTest Mode = "test"
	ModeLive Mode = "live"
)

// Valid reports whether m is one of the two modes.
func (m Mode) Valid() bool { return m == ModeTest || m == ModeLive }

// Other returns the other mode, whose data must not be visible in m.
func (m Mode) Other() Mode {
	if m == ModeTest {
		return ModeLive
	}
	return ModeTest
}

// Scope is the workspace and the mode whose data a call may access. Every SQL statement
// on a workspace's rows contains both.
type Scope struct {
	Workspace WorkspaceID `db:"workspace_id,fixed"`
	Mode      Mode        `db:"mode,fixed"`
}

// Compare defines an order of scopes. Transactions that lock rows of several scopes lock
// them in this order to avoid deadlocks.
func (s Scope) Compare(other Scope) int {
	return cmp.Or(bytes.Compare(s.Workspace.UUID[:], other.Workspace.UUID[:]), cmp.Compare(s.Mode, other.Mode))
}

// RecordKind is a kind of records that belong to one mode of a workspace.
type RecordKind string

// The kinds of records that members look up by id. The database layer uses these names too.
const (
	ProgramRecord     RecordKind = "program"
	ParticipantRecord RecordKind = "participant"
	CommissionRecord  RecordKind = "commission"
	ConversionRecord  RecordKind = "conversion"
	PayoutRecord      RecordKind = "payout"
	PayoutBatchRecord RecordKind = "payout_batch"
	LinkRecord        RecordKind = "link"
	PromoCodeRecord   RecordKind = "promo_code"
	FraudEventRecord  RecordKind = "fraud_event"
	WebhookRecord     RecordKind = "webhook"
)

// Record names one record of any kind.
type Record struct {
	Kind RecordKind
	ID   ID[Record]
}

// EventType is the kind of event that a conversion reports.
type EventType string

// The event types. Purchase and Renewal carry an amount.
const (
	Purchase EventType = "purchase"
	Renewal  EventType = "renewal"
	Signup   EventType = "signup"
	Lead     EventType = "lead"
	Trial    EventType = "trial"
	Custom   EventType = "custom"
)

// Priced reports whether an event of this type must have an amount.
func (e EventType) Priced() bool { return e == Purchase || e == Renewal }
