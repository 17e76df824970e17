package affiliate

import "time"

// MaxEndpoints is how many webhook endpoints a workspace may have in a mode
// (SPEC.md section 8).
const MaxEndpoints = 10

// RotatedSecretKept is how long the secret before the last also signs
// (DECISIONS.md section 9).
const RotatedSecretKept = 24 * time.Hour

// EndpointKey names an endpoint of any workspace.
type EndpointKey struct {
	Workspace WorkspaceID
	ID        EndpointID
}

// Endpoint is where a merchant receives events of one mode.
type Endpoint struct {
	ID    EndpointID
	Scope Scope
	// URL is https, in the form that webhook.ParseURL returns. It never changes.
	URL         string
	Description *string
	// Subscriptions are event names, noun.* for all events of a noun, or *.
	Subscriptions []string
	Active        bool
	// DisabledReason is set while the endpoint is not active.
	DisabledReason *DisabledReason
	// Epoch grows when the endpoint is disabled or deleted. Deliveries of an earlier
	// epoch are never sent.
	Epoch     int
	Health    EndpointHealth
	CreatedAt time.Time
	UpdatedAt time.Time
	Version   int // grows with every change of the fields above but Health
}

// EndpointHealth counts outcomes of an endpoint since its last success.
type EndpointHealth struct {
	ConsecutiveFailures int
	FailingSince        *time.Time // nil if the last attempt succeeded
	DeadLetters         int
	// LastDeliveryAt is the end of the last attempt, successful or not; nil if there was
	// none.
	LastDeliveryAt *time.Time
}

// EndpointStatus summarizes an endpoint.
type EndpointStatus string

// The states of an endpoint.
const (
	// EndpointHealthy: its last attempt, if any, succeeded.
	EndpointHealthy EndpointStatus = "healthy"
	// EndpointFailing: its last attempt failed.
	EndpointFailing EndpointStatus = "failing"
	// EndpointDisabled: it is not active.
	EndpointDisabled EndpointStatus = "disabled"
)

// Status returns the summary of e.
func (e Endpoint) Status() EndpointStatus {
	switch {
	case !e.Active:
		return EndpointDisabled
	case e.Health.ConsecutiveFailures > 0:
		return EndpointFailing
	default:
		return EndpointHealthy
	}
}

// DisabledReason says why an endpoint is not active.
type DisabledReason string

// The reasons for which endpoints are disabled.
const (
	// DisabledByMerchant: a user has disabled it.
	DisabledByMerchant DisabledReason = "manual"
	// DisabledGone: it responded 410.
	DisabledGone DisabledReason = "gone"
	// DisabledFailing: nothing succeeded for five days, and twenty deliveries or
	// more were given up.
	DisabledFailing DisabledReason = "failing"
)

// Delivery is an event on its way to one endpoint.
type Delivery struct {
	ID       DeliveryID
	Endpoint EndpointID
	Event    EventID
	Type     EventName
	Status   DeliveryStatus
	// Attempts are those that were made, the first one first. Lists leave them out.
	Attempts     []Attempt
	AttemptCount int
	// HTTPStatusCode and ErrorMessage are those of the last attempt.
	HTTPStatusCode *int
	ErrorMessage   *string
	// NextAttemptAt is when it is tried next; nil: it is not.
	NextAttemptAt *time.Time
	CreatedAt     time.Time
	// CompletedAt is when it ended; nil: it has not.
	CompletedAt *time.Time
}

// Attempt is one request and its outcome. Of the response only the status is kept.
type Attempt struct {
	Number     int       `json:"number"` // from 1
	StartedAt  time.Time `json:"startedAt"`
	DurationMS int64     `json:"durationMs"`
	// HTTPStatusCode is nil without a response.
	HTTPStatusCode *int `json:"httpStatusCode"`
	// ErrorMessage is one of the error codes of DECISIONS.md section 9; nil if it
	// succeeded.
	ErrorMessage *string `json:"errorMessage"`
}

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// The states of a delivery (DECISIONS.md section 9).
const (
	// DeliveryPending waits for its first attempt, or for that of a new schedule.
	DeliveryPending DeliveryStatus = "pending"
	// DeliveryDelivered was answered with 2xx.
	DeliveryDelivered DeliveryStatus = "delivered"
	// DeliveryFailed failed at its last attempt, and more are to come.
	DeliveryFailed DeliveryStatus = "failed"
	// DeliveryDeadLettered is given up: its attempts are used up, the endpoint is
	// gone, or its address may not be called.
	DeliveryDeadLettered DeliveryStatus = "dead_lettered"
	// DeliveryCanceled was waiting when its endpoint was disabled or deleted.
	DeliveryCanceled DeliveryStatus = "canceled"
)

// DeliveryFilter narrows a list of deliveries.
type DeliveryFilter struct {
	Status *DeliveryStatus
	Event  *EventID
}

// Sender names the ids of processes that send webhooks.
type Sender struct{}

// EndpointChange is an update of an endpoint by a user.
type EndpointChange struct {
	Subscriptions Change[[]string]
	Active        Change[bool]
	Description   Change[string]
}
