package affiliate

import "time"

// MaxEndpoints is how many webhook endpoints a workspace may have in a mode
// (SPEC.md section 8).
const MaxEndpoints = 10

// RotatedSecretKept is how long the secret before the last also signs
// (DECISIONS.md section 9).
const RotatedSecretKept = 24 * time.Hour

// EndpointKey names an endpoint for those who look after everybody's.
type EndpointKey struct {
	Workspace WorkspaceID
	ID        EndpointID
}

// Endpoint is where a merchant receives events of one mode.
type Endpoint struct {
	ID    EndpointID
	Scope Scope
	// URL is https, in the form that webhook.ParseURL gives it. It never changes.
	URL         string
	Description *string
	// Subscriptions are event names, noun.* for all of a noun, or *.
	Subscriptions []string
	Active        bool
	// DisabledReason is set while it is off.
	DisabledReason *DisabledReason
	// ConsecutiveFailures are the attempts that failed since the last that did not.
	ConsecutiveFailures int
	// LastDeliveryAt is when its last attempt ended; nil: there was none.
	LastDeliveryAt *time.Time
	CreatedAt      time.Time
	UpdatedAt      time.Time
	Version        int // one more with every change that a person makes
}

// EndpointStatus says how an endpoint does.
type EndpointStatus string

// The states of an endpoint.
const (
	// EndpointHealthy: its last attempt, if any, succeeded.
	EndpointHealthy EndpointStatus = "healthy"
	// EndpointFailing: its last attempt failed.
	EndpointFailing EndpointStatus = "failing"
	// EndpointDisabled: it is off.
	EndpointDisabled EndpointStatus = "disabled"
)

// Status is how e does.
func (e Endpoint) Status() EndpointStatus {
	switch {
	case !e.Active:
		return EndpointDisabled
	case e.ConsecutiveFailures > 0:
		return EndpointFailing
	default:
		return EndpointHealthy
	}
}

// DisabledReason is why an endpoint is off.
type DisabledReason string

// Why endpoints are off.
const (
	// DisabledByMerchant: somebody turned it off.
	DisabledByMerchant DisabledReason = "manual"
	// DisabledGone: it answered 410.
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

// Attempt is one request that was made, and what came of it. Nothing of the
// answer is kept but its status.
type Attempt struct {
	Number     int       `json:"number"` // from 1
	StartedAt  time.Time `json:"startedAt"`
	DurationMS int64     `json:"durationMs"`
	// HTTPStatusCode is nil without an answer.
	HTTPStatusCode *int `json:"httpStatusCode"`
	// ErrorMessage is one of the words of DECISIONS.md section 9; nil: it succeeded.
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
	// DeliveryCanceled waited when its endpoint was turned off or deleted.
	DeliveryCanceled DeliveryStatus = "canceled"
)

// DeliveryFilter narrows a list of deliveries.
type DeliveryFilter struct {
	Status *DeliveryStatus
	Event  *EventID
}

// Sender is a process that sends webhooks.
type Sender struct{}

// EndpointChange is what a person changes of an endpoint.
type EndpointChange struct {
	Subscriptions Change[[]string]
	Active        Change[bool]
	Description   Change[string]
}
