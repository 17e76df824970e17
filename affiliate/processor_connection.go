package affiliate

import (
	"strings"
	"time"

	"github.com/google/uuid"
)

// ProcessorConnectionID identifies a connection to a payment processor.
type ProcessorConnectionID = ID[ProcessorConnection]

// ConnectionIDOf returns the id of the connection of a scope to a processor. It is always
// the same, so that all webhook endpoints of the connection have the same URL, and those of
// failed attempts to connect can be found and deleted.
func ConnectionIDOf(scope Scope, processor ProcessorName) ProcessorConnectionID {
	return ProcessorConnectionID{uuid.NewSHA1(scope.Workspace.UUID, []byte(string(scope.Mode)+" "+string(processor)))}
}

// ProcessorConnection is an account at a payment processor that a merchant has connected to
// one mode of the workspace. It contains no key and no secret.
type ProcessorConnection struct {
	ID        ProcessorConnectionID
	Scope     Scope
	Processor ProcessorName
	Account   string
	// Endpoint is the id of the webhook endpoint at the processor.
	Endpoint string
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
	Resync          ResyncState
}

// ResyncState says which resync of a connection is running. A new resync replaces a running
// one and begins where the earlier of the two would continue.
type ResyncState struct {
	Number int // of the last resync; its jobs have this number
	// Since is the earliest time of a sale that the resync reads. The events before From are
	// read. Both are nil if no resync is running.
	Since, From *time.Time
}

// MissingPermissions is the key of the metadata of PROCESSOR_PERMISSION_MISSING whose value
// has the names of the missing permissions, separated by commas.
const MissingPermissions = "missing_permissions"

// SealedProcessorKeys holds the encrypted key and secrets of a connection.
type SealedProcessorKeys struct {
	Key    []byte
	Secret []byte
	// PreviousSecret is the secret of the endpoint that was replaced by a reconnection. It is
	// nil if there is none. Its messages are accepted until PreviousSecretUntil.
	PreviousSecret      []byte
	PreviousSecretUntil *time.Time
}

// ProcessorEndpointGrace is the age that an endpoint must have before TidyProcessorEndpoints
// deletes it. An attempt to connect that is running takes less time.
const ProcessorEndpointGrace = 10 * time.Minute

// RotatedProcessorSecretGrace is how long messages of a replaced endpoint are accepted after
// a reconnection. Stripe delivers events for up to three days.
const RotatedProcessorSecretGrace = 3 * 24 * time.Hour

// LockedProcessorConnection is a connection with its keys. Deleted is true if the merchant
// has disconnected it.
type LockedProcessorConnection struct {
	ProcessorConnection
	Keys    SealedProcessorKeys
	Deleted bool
}

// BeginResync returns the connection with a new resync, and the first job of the resync.
func (c ProcessorConnection) BeginResync(since, until time.Time) (ProcessorConnection, ResyncProcessor) {
	since = since.Truncate(time.Microsecond) // as it is stored
	from := since
	if running := c.Resync; running.From != nil && running.From.Before(from) {
		from = *running.From
	}
	if running := c.Resync; running.Since != nil && running.Since.Before(since) {
		since = *running.Since
	}
	c.Resync = ResyncState{Number: c.Resync.Number + 1, Since: &since, From: &from}
	return c, ResyncProcessor{
		Workspace: c.Scope.Workspace, Mode: c.Scope.Mode, Connection: c.ID, Account: c.Account,
		Since: since, Number: c.Resync.Number, From: from, Until: until,
	}
}

// Reconnect returns the connection with a new endpoint and new keys. Errors:
// PROCESSOR_ALREADY_CONNECTED if the new key belongs to another account.
func (c LockedProcessorConnection) Reconnect(to ProcessorConnection, keys SealedProcessorKeys) (LockedProcessorConnection, error) {
	if to.Account != c.Account {
		return c, Refuse(ReasonProcessorAlreadyConnected)
	}
	until := to.UpdatedAt.Add(RotatedProcessorSecretGrace)
	keys.PreviousSecret, keys.PreviousSecretUntil = c.Keys.Secret, &until
	to.ConnectedAt, to.Resync = c.ConnectedAt, c.Resync
	return LockedProcessorConnection{ProcessorConnection: to, Keys: keys}, nil
}

// AuditLine returns the entry of the audit log about a change of the connection. It contains
// no key.
func (c ProcessorConnection) AuditLine(action string, by Actor, at time.Time) AuditLine {
	return AuditLine{
		Workspace: c.Scope.Workspace, Mode: &c.Scope.Mode, Actor: by, At: at,
		Action: action, ResourceType: "processor_connection", ResourceID: c.ID,
		After: struct {
			Processor         ProcessorName `json:"processor"`
			Account           string        `json:"account_id"`
			CreateConversions bool          `json:"create_conversions"`
			IncludeOutOfBand  bool          `json:"include_out_of_band"`
		}{c.Processor, c.Account, c.CreateConversions, c.IncludeOutOfBand},
	}
}

// Notification returns a notification about the connection. by is the member who caused
// it, or nil if the service did.
func (c ProcessorConnection) Notification(kind NotificationType, by *UserID, at time.Time) Notification {
	n := NewNotification(Merchant, WorkspaceFeed(c.Scope.Workspace), kind, &c.Scope.Mode, at)
	n.Workspace, n.User, n.Resource = &c.Scope.Workspace, by, &c.ID.UUID
	n.Facts = map[string]string{"processor": c.Processor.title(), "account": c.Account, "mode": string(c.Scope.Mode)}
	return n
}

// FailureNotification returns the notification about an event that could not be applied.
func (c ProcessorConnection) FailureNotification(reason ProcessorIgnored, at time.Time) Notification {
	n := c.Notification(NotifyProcessorFailed, nil, at)
	n.Facts["reason"] = map[ProcessorIgnored]string{
		FailedKey: "the key is no longer accepted", FailedPermission: "the key lacks a permission",
		FailedProcessor: "the processor did not respond", FailedInternal: "of an internal error",
	}[reason]
	return n
}

// The statuses of an endpoint at a processor, see Processor.EndpointStatus. An endpoint with
// another status than EndpointEnabled receives no events. EndpointKeyInvalid means that the
// key is no longer accepted, so that events cannot be applied.
const (
	EndpointEnabled    = "enabled"
	EndpointMissing    = "missing"
	EndpointKeyInvalid = "key_invalid"
)

// EndpointNotification returns the notification about an endpoint that no longer works.
func (c ProcessorConnection) EndpointNotification(status string, at time.Time) Notification {
	n := c.Notification(NotifyProcessorEndpointFailing, nil, at)
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

// title returns the name as people write it.
func (n ProcessorName) title() string { return strings.ToUpper(string(n[:1])) + string(n[1:]) }

// ProcessorEventKey identifies an event that a processor has sent.
type ProcessorEventKey struct {
	Workspace  WorkspaceID           `json:"workspace"`
	Mode       Mode                  `json:"mode"`
	Connection ProcessorConnectionID `json:"connection"`
	Event      string                `json:"event"`
}

// Scope returns the scope of the event.
func (k ProcessorEventKey) Scope() Scope { return Scope{Workspace: k.Workspace, Mode: k.Mode} }

// ProcessorEventStatus is the state of the work on a stored event.
type ProcessorEventStatus string

// The statuses. Received and parked events are not final.
const (
	// ProcessorEventReceived means that the event is stored and its job has not run, or will
	// run again after an error.
	ProcessorEventReceived ProcessorEventStatus = "received"
	// ProcessorEventApplied means that the current state of the event's object is applied.
	ProcessorEventApplied ProcessorEventStatus = "applied"
	// ProcessorEventIgnored means that the event has no effect.
	ProcessorEventIgnored ProcessorEventStatus = "ignored"
	// ProcessorEventParked means that the event waits for another one, for example a refund
	// for its sale.
	ProcessorEventParked ProcessorEventStatus = "parked"
	// ProcessorEventFailed means that no attempt within ProcessorEventLifetime succeeded.
	ProcessorEventFailed ProcessorEventStatus = "failed"
)

// The reasons of parked, ignored and failed events, in addition to ProcessorIgnored.
const (
	// IgnoredConversionsOff means that the connection makes no conversions.
	IgnoredConversionsOff ProcessorIgnored = "conversions_off"
	// IgnoredDisconnected means that the merchant disconnected the account, or connected
	// another one, before the event was applied.
	IgnoredDisconnected ProcessorIgnored = "disconnected"
	// IgnoredNoConversion means that a refund or dispute waited for its sale until
	// ParkedRefundLifetime ended.
	IgnoredNoConversion ProcessorIgnored = "no_conversion"
	// IgnoredErased means that the event is about a buyer whose data was erased before the
	// event was applied.
	IgnoredErased ProcessorIgnored = "buyer_erased"
	// ParkedForSale means that a refund or dispute waits for its sale.
	ParkedForSale ProcessorIgnored = "waits_for_sale"
	// ParkedForCheckout means that the first invoice of a subscription waits for its
	// checkout, for at most CheckoutWait.
	ParkedForCheckout ProcessorIgnored = "waits_for_checkout"
	// ParkedForFee means that a sale waits for the processor's fee, for at most FeeWait.
	ParkedForFee ProcessorIgnored = "waits_for_fee"
	// FailedKey and FailedPermission mean that the processor does not accept the key, or that
	// the key lacks a permission. FailedProcessor means that the processor did not respond.
	FailedKey        ProcessorIgnored = "key_invalid"
	FailedPermission ProcessorIgnored = "permission_missing"
	FailedProcessor  ProcessorIgnored = "processor_unavailable"
	FailedInternal   ProcessorIgnored = "internal_error"
)

const (
	// CheckoutWait is how long the first invoice of a subscription waits for its checkout.
	// Stripe completes a checkout some seconds after the invoice is paid. A subscription that
	// did not begin with a checkout waits for this time.
	CheckoutWait = 5 * time.Minute
	// FeeWait is how long a sale waits for the processor's fee. After that, the fee counts
	// as 0 and the commission needs review.
	FeeWait = time.Hour
	// ProcessorEventLifetime is how long the work on an event is repeated after errors.
	ProcessorEventLifetime = 3 * 24 * time.Hour
	// ProcessorEventAbandoned is the age at which an event without an outcome counts as
	// failed. Its last attempt ended without storing one, for example because the process
	// was killed.
	ProcessorEventAbandoned = ProcessorEventLifetime + 24*time.Hour
	// ProcessorEventRetention is how long the ids and outcomes of events are kept.
	ProcessorEventRetention = 90 * 24 * time.Hour
	// SignatureFailureRetention is how long counts of invalid signatures are kept.
	SignatureFailureRetention = 48 * time.Hour
	// MaxResyncAge is the greatest age of the events that a resync reads. Stripe keeps
	// events for 30 days.
	MaxResyncAge = 30 * 24 * time.Hour
)

// StoredProcessorEvent is an event that a processor has sent, and the outcome of the work.
type StoredProcessorEvent struct {
	ProcessorEventKey
	Type string
	// Account is the account of the connection when the event arrived.
	Account string
	Body    []byte // encrypted; nil if the work has ended
	// Resync is true if the event was read from the processor's list of events. Since is the
	// earliest time of a sale that the resync reads; nil otherwise.
	Resync      bool
	Since       *time.Time
	Status      ProcessorEventStatus
	Reason      ProcessorIgnored // empty if applied
	Conversion  *ConversionID    // the conversion that the event concerned, if any
	Charge      string           // of an event that waits for its sale: the id of its charge
	HappenedAt  time.Time        // as the processor says
	ReceivedAt  time.Time
	ProcessedAt *time.Time
	// AttemptUntil is when the running attempt to apply the event has ended at the latest; nil
	// if no attempt is running.
	AttemptUntil *time.Time
}

// ProcessorHealth describes the events of a connection.
type ProcessorHealth struct {
	LastEventAt *time.Time // when the newest event was received; nil if none was
	// OldestWaitingAt is when the oldest event was received that was not applied yet; nil if
	// none waits. Parked events do not count.
	OldestWaitingAt *time.Time
	// SignatureFailures counts the messages with an invalid signature in the last 24 hours.
	SignatureFailures int64
}

// ApplyProcessorEvent is the job that applies an event of a processor.
type ApplyProcessorEvent struct{ ProcessorEventKey }

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
	Workspace  WorkspaceID  `json:"workspace"`
	Mode       Mode         `json:"mode"`
	Conversion ConversionID `json:"conversion"`
}

// Kind returns the name of the job.
func (ReverseConversion) Kind() string { return "reverse_conversion" }

// ResyncProcessor is the job that reads the events of a part of a resync and stores those
// that were not received. It enqueues the job for the next part.
type ResyncProcessor struct {
	Workspace  WorkspaceID           `json:"workspace"`
	Mode       Mode                  `json:"mode"`
	Connection ProcessorConnectionID `json:"connection"`
	Account    string                `json:"account"`
	// Since is the earliest time of a sale that the resync reads.
	Since time.Time `json:"since"`
	// Number is the ResyncState.Number of the resync. A job of a resync that was replaced does
	// nothing.
	Number int `json:"number"`
	// From is the time of the first event of this part. Until is some time after the resync
	// began; the connection receives later events.
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
	Workspace  WorkspaceID           `json:"workspace"`
	Connection ProcessorConnectionID `json:"connection"`
}

// Kind returns the name of the job.
func (CheckProcessorEndpoint) Kind() string { return "check_processor_endpoint" }

// TidyProcessorEndpoints is the job that deletes all webhook endpoints of a connection at the
// processor except the current one: the endpoint that a reconnection has replaced, and the
// endpoints of failed attempts to connect.
type TidyProcessorEndpoints struct {
	Workspace  WorkspaceID           `json:"workspace"`
	Connection ProcessorConnectionID `json:"connection"`
}

// Kind returns the name of the job.
func (TidyProcessorEndpoints) Kind() string { return "tidy_processor_endpoints" }

// RemoveProcessorEndpoint is the job that deletes an endpoint at the processor after the
// merchant has disconnected the account, and then the connection.
type RemoveProcessorEndpoint struct {
	Workspace  WorkspaceID           `json:"workspace"`
	Connection ProcessorConnectionID `json:"connection"`
	Endpoint   string                `json:"endpoint"`
}

// Kind returns the name of the job.
func (RemoveProcessorEndpoint) Kind() string { return "remove_processor_endpoint" }

// ProcessorQueue is the queue of the jobs that call a payment processor. It has its own
// queue because a processor can be slow and can send many events at once.
const ProcessorQueue = "processor"

// ProcessorAttempts is the number of attempts to apply an event. With the delays between
// them, they last about ProcessorEventLifetime.
const ProcessorAttempts = 14

// SyncPromoCodes is the job that does the work of SyncPromoCode for all promo codes of a
// scope, after an account was connected.
type SyncPromoCodes struct {
	Workspace WorkspaceID `json:"workspace"`
	Mode      Mode        `json:"mode"`
}

// Kind returns the name of the job.
func (SyncPromoCodes) Kind() string { return "sync_promo_codes" }
