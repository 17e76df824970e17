package processor

import (
	"time"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

// ConnectionID identifies a connection to a payment processor.
type ConnectionID = affiliate.ID[Connection]

// ConnectionIDOf returns the id of the connection of a scope to a processor. The id never
// changes, so all webhook endpoints of the connection have the same URL, and the endpoints of
// failed attempts to connect can be found and deleted.
func ConnectionIDOf(scope affiliate.Scope, processor conversion.ProcessorName) ConnectionID {
	return ConnectionID{UUID: uuid.NewSHA1(scope.Workspace.UUID, []byte(string(scope.Mode)+" "+string(processor)))}
}

// Connection is an account at a payment processor that a merchant has connected to
// one mode of the workspace. It contains no key and no secret.
type Connection struct {
	ID ConnectionID `db:"id,fixed"`
	affiliate.Scope
	Processor conversion.ProcessorName `db:"processor,fixed"`
	Account   string                   `db:"account_id"`
	// Endpoint is the id of the webhook endpoint at the processor.
	Endpoint string `db:"endpoint_id"`
	// CreateConversions is false if the merchant's server reports the sales. The processor
	// then only reports refunds and disputes.
	CreateConversions bool
	// IncludeOutOfBand means that invoices that were paid outside of the processor make
	// conversions.
	IncludeOutOfBand bool
	ConnectedAt      time.Time // sales before this time are only read by a resync
	UpdatedAt        time.Time
	// EndpointFailing means that the merchant was notified that the endpoint does not work.
	EndpointFailing bool
	Resync
}

// Resync says which resync of a connection is running. A new resync replaces a running one. It
// begins at its own start or at the position of the replaced resync, whichever is earlier.
type Resync struct {
	Number int `db:"resync_number"` // of the last resync; its jobs have this number
	// Since is the earliest time of a sale that the resync reads. The events before From have
	// already been read. Both are nil if no resync is running.
	Since *time.Time `db:"resync_since"`
	From  *time.Time `db:"resync_from"`
}

// MissingPermissions is a metadata key of the error PROCESSOR_PERMISSION_MISSING. Its value has
// the names of the missing permissions, separated by commas.
const MissingPermissions = "missing_permissions"

// Keys holds the encrypted key and secrets of a connection.
type Keys struct {
	Key    []byte
	Secret []byte
	// PreviousSecret is the secret of the endpoint that was replaced by a reconnection. It is nil
	// if there is none. Messages that are signed with it are accepted until PreviousSecretUntil.
	PreviousSecret      []byte
	PreviousSecretUntil *time.Time
}

// EndpointGrace is the age that an endpoint must have before TidyProcessorEndpoints deletes it.
// A running attempt to connect takes less time, so its endpoint is not deleted.
const EndpointGrace = 10 * time.Minute

// RotatedProcessorSecretGrace is how long messages of a replaced endpoint are accepted after
// a reconnection. Stripe delivers events for up to three days.
const RotatedProcessorSecretGrace = 3 * 24 * time.Hour

// LockedProcessorConnection is a connection with its keys. Deleted is true if the merchant
// has disconnected it.
type LockedProcessorConnection struct {
	Connection
	Keys
	Deleted bool
}

// BeginResync returns the connection with a new resync, and the first job of the resync.
func (c Connection) BeginResync(since, until time.Time) (Connection, ResyncProcessor) {
	since = since.Truncate(time.Microsecond) // as it is stored
	from := since
	if running := c.Resync; running.From != nil && running.From.Before(from) {
		from = *running.From
	}
	if running := c.Resync; running.Since != nil && running.Since.Before(since) {
		since = *running.Since
	}
	c.Resync = Resync{Number: c.Number + 1, Since: &since, From: &from}
	return c, ResyncProcessor{
		Workspace: c.Workspace, Mode: c.Mode, Connection: c.ID, Account: c.Account,
		Since: since, Number: c.Number, From: from, Until: until,
	}
}

// Reconnect returns the connection with a new endpoint and new keys. Errors:
// PROCESSOR_ALREADY_CONNECTED if the new key belongs to another account.
func (c LockedProcessorConnection) Reconnect(to Connection, keys Keys) (LockedProcessorConnection, error) {
	if to.Account != c.Account {
		return c, affiliate.Refuse(affiliate.ReasonProcessorAlreadyConnected)
	}
	until := to.UpdatedAt.Add(RotatedProcessorSecretGrace)
	keys.PreviousSecret, keys.PreviousSecretUntil = c.Secret, &until
	to.ConnectedAt, to.Resync = c.ConnectedAt, c.Resync
	return LockedProcessorConnection{Connection: to, Keys: keys}, nil
}

// AuditLine returns the entry of the audit log about a change of the connection. It contains
// no key.
func (c Connection) AuditLine(action string, by affiliate.Actor, at time.Time) affiliate.AuditLine {
	return affiliate.AuditLine{
		Workspace: c.Workspace, Mode: &c.Mode, Actor: by, At: at,
		Action: action, ResourceType: "processor_connection", ResourceID: c.ID,
		After: c.auditObject(),
	}
}

// UpdateLine returns the entry of the audit log about a change of the options. The receiver is the
// connection after the change.
func (c Connection) UpdateLine(before Connection, by affiliate.Actor) affiliate.AuditLine {
	line := c.AuditLine("processor.update", by, c.UpdatedAt)
	line.Before = before.auditObject()
	return line
}

func (c Connection) auditObject() any {
	return struct {
		Processor         conversion.ProcessorName `json:"processor"`
		Account           string                   `json:"account_id"`
		CreateConversions bool                     `json:"create_conversions"`
		IncludeOutOfBand  bool                     `json:"include_out_of_band"`
	}{c.Processor, c.Account, c.CreateConversions, c.IncludeOutOfBand}
}

// Notification returns a notification about the connection. The parameter by is the member who
// caused the notification; nil if the service caused it.
func (c Connection) Notification(kind notification.Type, by *affiliate.UserID, at time.Time) notification.Notification {
	n := notification.NewNotification(affiliate.Merchant, notification.WorkspaceFeed(c.Workspace), kind, &c.Mode, at)
	n.Workspace, n.User, n.Resource = &c.Workspace, by, &c.ID.UUID
	n.Facts = map[string]string{"processor": c.Processor.Title(), "account": c.Account, "mode": string(c.Mode)}
	return n
}

// FailureNotification returns the notification about an event that could not be applied.
func (c Connection) FailureNotification(reason Ignored, at time.Time) notification.Notification {
	n := c.Notification(notification.NotifyProcessorFailed, nil, at)
	n.Facts["reason"] = map[Ignored]string{
		FailedKey: "the key is no longer accepted", FailedPermission: "the key lacks a permission",
		FailedProcessor: "the processor did not respond", FailedInternal: "of an internal error",
	}[reason]
	return n
}

// The statuses of an endpoint at a processor, see Processor.EndpointStatus. EndpointKeyInvalid
// means that the key is no longer accepted, so events may arrive but cannot be applied. An endpoint
// with any status other than these two, EndpointEnabled and EndpointKeyInvalid, receives no events.
const (
	EndpointEnabled    = "enabled"
	EndpointMissing    = "missing"
	EndpointKeyInvalid = "key_invalid"
)

// EndpointNotification returns the notification about an endpoint that no longer works.
func (c Connection) EndpointNotification(status string, at time.Time) notification.Notification {
	n := c.Notification(notification.NotifyProcessorEndpointFailing, nil, at)
	switch status {
	case EndpointMissing:
		n.Facts["reason"] = "the webhook endpoint was deleted there"
	case EndpointKeyInvalid:
		n.Facts["reason"] = "the key is no longer accepted"
	default:
		n.Facts["reason"] = "the webhook endpoint was disabled there"
	}
	return n
}

// EventKey identifies an event that a processor has sent.
type EventKey struct {
	Workspace  affiliate.WorkspaceID `json:"workspace" db:"workspace_id"`
	Mode       affiliate.Mode        `json:"mode"`
	Connection ConnectionID          `json:"connection" db:"connection_id"`
	Event      string                `json:"event" db:"id"`
}

// Scope returns the scope of the event.
func (k EventKey) Scope() affiliate.Scope {
	return affiliate.Scope{Workspace: k.Workspace, Mode: k.Mode}
}

// EventStatus is the state of the work on a stored event.
type EventStatus string

// The statuses. Received and parked events are not final.
const (
	// EventReceived means that the event is stored and its job has not run, or will
	// run again after an error.
	EventReceived EventStatus = "received"
	// EventApplied means that the current state of the event's object is applied.
	EventApplied EventStatus = "applied"
	// EventIgnored means that the event has no effect.
	EventIgnored EventStatus = "ignored"
	// EventParked means that the event waits for another one, for example a refund
	// for its sale.
	EventParked EventStatus = "parked"
	// EventFailed means that no attempt within EventLifetime succeeded.
	EventFailed EventStatus = "failed"
)

// The reasons of parked, ignored and failed events, in addition to the reasons in processor.go.
const (
	// IgnoredConversionsOff means that the connection makes no conversions.
	IgnoredConversionsOff Ignored = "conversions_off"
	// IgnoredDisconnected means that the merchant disconnected the account, or connected
	// another one, before the event was applied.
	IgnoredDisconnected Ignored = "disconnected"
	// IgnoredNoConversion means that a refund or dispute waited for its sale until
	// ParkedRefundLifetime ended.
	IgnoredNoConversion Ignored = "no_conversion"
	// IgnoredErased means that the event is about a buyer whose data was erased before the
	// event was applied.
	IgnoredErased Ignored = "buyer_erased"
	// ParkedForSale means that a refund or dispute waits for its sale.
	ParkedForSale Ignored = "waits_for_sale"
	// ParkedForCheckout means that the first invoice of a subscription waits for its
	// checkout, for at most CheckoutWait.
	ParkedForCheckout Ignored = "waits_for_checkout"
	// ParkedForFee means that a sale waits for the processor's fee, for at most FeeWait.
	ParkedForFee Ignored = "waits_for_fee"
	// FailedKey and FailedPermission mean that the processor does not accept the key, or that
	// the key lacks a permission. FailedProcessor means that the processor did not respond.
	FailedKey        Ignored = "key_invalid"
	FailedPermission Ignored = "permission_missing"
	FailedProcessor  Ignored = "processor_unavailable"
	FailedInternal   Ignored = "internal_error"
)

const (
	// CheckoutWait is how long the first invoice of a subscription waits for its checkout.
	// Stripe completes a checkout some seconds after the invoice is paid. If the subscription
	// did not begin with a checkout, the invoice waits for the whole time.
	CheckoutWait = 5 * time.Minute
	// FeeWait is how long a sale waits for the processor's fee. After that, the fee counts
	// as 0 and the commission needs review.
	FeeWait = time.Hour
	// EventLifetime is how long the work on an event is repeated after errors.
	EventLifetime = 3 * 24 * time.Hour
	// EventAbandoned is the age at which an event without an outcome is treated as failed. Its
	// last attempt ended without storing an outcome, for example because the process was
	// killed.
	EventAbandoned = EventLifetime + 24*time.Hour
	// EventRetention is how long the ids and outcomes of events are kept.
	EventRetention = 90 * 24 * time.Hour
	// SignatureFailureRetention is how long counts of invalid signatures are kept.
	SignatureFailureRetention = 48 * time.Hour
	// MaxResyncAge is the greatest age of the events that a resync reads. Stripe keeps
	// events for 30 days.
	MaxResyncAge = 30 * 24 * time.Hour
)

// StoredProcessorEvent is an event that a processor has sent, and the outcome of the work.
type StoredProcessorEvent struct {
	EventKey
	Type string
	// Account is the account of the connection when the event arrived.
	Account string `db:"account_id"`
	Body    []byte `db:"-"` // encrypted; nil if the work has ended. Lists do not load it.
	// Resync is true if the event was read from the processor's list of events. Since is then
	// the earliest time of a sale that the resync reads; it is nil if Resync is false.
	Resync      bool
	Since       *time.Time
	Status      EventStatus
	Reason      Ignored                 `db:"reason,nullable"`    // empty if applied
	Conversion  *affiliate.ConversionID `db:"conversion_id"`      // the conversion that the event concerned, if any
	Charge      string                  `db:"charge_id,nullable"` // the id of the charge whose sale the event waits for
	HappenedAt  time.Time               // time of the event, as the processor says
	ReceivedAt  time.Time
	ProcessedAt *time.Time
	// AttemptUntil is the latest time at which the running attempt to apply the event ends; nil
	// if no attempt is running.
	AttemptUntil *time.Time
}

// Health describes the events of a connection.
type Health struct {
	LastEventAt *time.Time // when the newest event was received; nil if none was
	// OldestWaitingAt is when the oldest event that waits to be applied was received; nil if no
	// event waits. Parked events are not included.
	OldestWaitingAt *time.Time
	// SignatureFailures counts the messages with an invalid signature in the last 24 hours.
	SignatureFailures int64
}

// ApplyProcessorEvent is the job that applies an event of a processor.
type ApplyProcessorEvent struct{ EventKey }

// Kind returns the name of the job.
func (ApplyProcessorEvent) Kind() string { return "apply_processor_event" }

// EndAbandonedEvents is the periodic job that ends events whose last attempt has stored no
// outcome.
type EndAbandonedEvents struct{}

// Kind returns the name of the job.
func (EndAbandonedEvents) Kind() string { return "end_abandoned_processor_events" }

// ReverseConversion is the job that applies the refunds and disputes of a processor to a
// conversion that was reported after them.
type ReverseConversion struct {
	Workspace  affiliate.WorkspaceID  `json:"workspace"`
	Mode       affiliate.Mode         `json:"mode"`
	Conversion affiliate.ConversionID `json:"conversion"`
}

// Kind returns the name of the job.
func (ReverseConversion) Kind() string { return "reverse_conversion" }

// ResyncProcessor is the job that reads the events in one part of a resync and stores the
// events that were not received before. It enqueues the job for the next part.
type ResyncProcessor struct {
	Workspace  affiliate.WorkspaceID `json:"workspace"`
	Mode       affiliate.Mode        `json:"mode"`
	Connection ConnectionID          `json:"connection"`
	Account    string                `json:"account"`
	// Since is the earliest time of a sale that the resync reads.
	Since time.Time `json:"since"`
	// Number is the Number of the resync. A job whose resync was replaced does nothing.
	Number int `json:"number"`
	// From is the time of the first event of this part. Until is some time after the resync
	// began; the webhook endpoint receives later events.
	From  time.Time `json:"from"`
	Until time.Time `json:"until"`
	// Part is the length of this part; 0 for the default.
	Part time.Duration `json:"part"`
}

// Kind returns the name of the job.
func (ResyncProcessor) Kind() string { return "resync_processor" }

// CheckProcessorEndpoints is the periodic job that enqueues CheckProcessorEndpoint for each
// connection.
type CheckProcessorEndpoints struct{}

// Kind returns the name of the job.
func (CheckProcessorEndpoints) Kind() string { return "check_processor_endpoints" }

// CheckProcessorEndpoint is the job that notifies the merchant when the webhook endpoint of a
// connection no longer works.
type CheckProcessorEndpoint struct {
	Workspace  affiliate.WorkspaceID `json:"workspace"`
	Connection ConnectionID          `json:"connection"`
}

// Kind returns the name of the job.
func (CheckProcessorEndpoint) Kind() string { return "check_processor_endpoint" }

// TidyProcessorEndpoints is the job that deletes all webhook endpoints of a connection at the
// processor except the current one: the endpoint that a reconnection has replaced, and the
// endpoints of failed attempts to connect.
type TidyProcessorEndpoints struct {
	Workspace  affiliate.WorkspaceID `json:"workspace"`
	Connection ConnectionID          `json:"connection"`
}

// Kind returns the name of the job.
func (TidyProcessorEndpoints) Kind() string { return "tidy_processor_endpoints" }

// RemoveProcessorEndpoint is the job that deletes an endpoint at the processor after the
// merchant has disconnected the account. Then it deletes the connection.
type RemoveProcessorEndpoint struct {
	Workspace  affiliate.WorkspaceID `json:"workspace"`
	Connection ConnectionID          `json:"connection"`
	Endpoint   string                `json:"endpoint"`
}

// Kind returns the name of the job.
func (RemoveProcessorEndpoint) Kind() string { return "remove_processor_endpoint" }

// Queue is the queue of the jobs that call a payment processor. It has its own
// queue because a processor can be slow and can send many events at once.
const Queue = "processor"

// Attempts is the number of attempts to apply an event. With the delays between
// them, they last about EventLifetime.
const Attempts = 14

// SyncPromoCodes is the job that does the work of SyncPromoCode for all promo codes of a
// scope, after an account was connected.
type SyncPromoCodes struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Mode      affiliate.Mode        `json:"mode"`
}

// Kind returns the name of the job.
func (SyncPromoCodes) Kind() string { return "sync_promo_codes" }
