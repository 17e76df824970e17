package webhook

import (
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// MaxEndpoints is the greatest number of webhook endpoints of a workspace in one mode.
// It bounds the deliveries of an event.
const MaxEndpoints = 10

// RotatedSecretGrace is how long, after a rotation, deliveries are also signed with the
// previous secret, so that a receiver can change its secret without losing events.
const RotatedSecretGrace = 24 * time.Hour

// EndpointKey identifies an endpoint of any workspace.
type EndpointKey struct {
	Workspace affiliate.WorkspaceID `db:"workspace_id"`
	ID        affiliate.EndpointID
}

// Endpoint is the URL at which a merchant receives events of one mode.
type Endpoint struct {
	affiliate.Scope
	ID affiliate.EndpointID `db:"id,fixed"`
	// URL is an https URL, in the form that webhook.ParseURL returns. It never changes.
	URL         string `db:"url,fixed"`
	Description *string
	// Subscriptions are event names, noun.* for all events of a noun, or * for all
	// events.
	Subscriptions []string
	Active        bool
	// DisabledReason is set if the endpoint is not active.
	DisabledReason *DisabledReason
	// Epoch increases when the endpoint is disabled or deleted. Deliveries of an
	// earlier epoch are never sent.
	Epoch int
	Health
	CreatedAt time.Time `db:"created_at,fixed"`
	UpdatedAt time.Time
	Version   int // increases with every change of the fields above, except Health
}

// Health describes the failures since the endpoint's last successful attempt, or since it was enabled again.
type Health struct {
	ConsecutiveFailures int
	FailingSince        *time.Time // time of the first of these failures; nil if there is none
	DeadLetters         int        // deliveries that became dead letters
	// LastDeliveryAt is the end of the last attempt, successful or not; nil if there
	// was no attempt.
	LastDeliveryAt *time.Time
	// LastDeadLetterDay is the last UTC day on which a delivery became a dead letter; nil
	// if none did. A success does not reset it.
	LastDeadLetterDay *time.Time `sql:"date"`
}

// EndpointStatus is a summary of an endpoint's state.
type EndpointStatus string

// The states of an endpoint.
const (
	// EndpointHealthy means that the last attempt succeeded, or that there was no attempt since
	// the endpoint was created or enabled again.
	EndpointHealthy EndpointStatus = "healthy"
	// EndpointFailing means that the last attempt failed.
	EndpointFailing EndpointStatus = "failing"
	// EndpointDisabled means that the endpoint is not active.
	EndpointDisabled EndpointStatus = "disabled"
)

// Status returns the summary of e.
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

// DisabledReason says why an endpoint is not active.
type DisabledReason string

// The reasons for which endpoints are disabled.
const (
	// DisabledByMerchant means that a user disabled the endpoint.
	DisabledByMerchant DisabledReason = "manual"
	// DisabledGone means that the endpoint responded with status 410.
	DisabledGone DisabledReason = "gone"
	// DisabledFailing means that no attempt succeeded for five days and that at least
	// twenty deliveries became dead letters in that time.
	DisabledFailing DisabledReason = "failing"
)

// Delivery is the delivery of one event to one endpoint.
type Delivery struct {
	ID       affiliate.DeliveryID
	Endpoint affiliate.EndpointID `db:"endpoint_id"`
	Event    affiliate.EventID    `db:"event_id"`
	Type     affiliate.EventName  `db:"event_type"`
	// Epoch is the epoch of the endpoint when the delivery was created, recovered or retried.
	Epoch  int
	Status DeliveryStatus
	// Attempts holds the newest 50 attempts, oldest first. Lists do not load them.
	Attempts     []Attempt `db:"-"`
	AttemptCount int
	// HTTPStatusCode and ErrorMessage belong to the last attempt.
	HTTPStatusCode *int
	ErrorMessage   *string
	// NextAttemptAt is the time of the next attempt; nil if there will be none.
	NextAttemptAt *time.Time `db:"due_at"`
	CreatedAt     time.Time
	// CompletedAt is when the delivery reached a final status; nil until then.
	CompletedAt *time.Time
	// Payload is the body that is sent; nil if the event is deleted. Lists do not load it.
	Payload *string `db:"-"`
}

// InEpoch returns the delivery as it is shown while its endpoint has the given epoch. A delivery of
// an earlier epoch is never sent. It is shown as canceled if it waited for an attempt.
func (d Delivery) InEpoch(epoch int) Delivery {
	if d.Epoch < epoch {
		d.NextAttemptAt = nil
		if d.Status == DeliveryPending || d.Status == DeliveryFailed {
			d.Status = DeliveryCanceled
		}
	}
	return d
}

// Attempt is one request and its outcome. Only the status of the response is stored.
type Attempt struct {
	Number     int       `json:"number"` // from 1
	StartedAt  time.Time `json:"startedAt"`
	DurationMS int64     `json:"durationMs"`
	// HTTPStatusCode is nil if there was no response.
	HTTPStatusCode *int `json:"httpStatusCode"`
	// ErrorMessage is an error code, such as Timeout or http_<status>; nil if the attempt
	// succeeded.
	ErrorMessage *string `json:"errorMessage"`
}

// DeliveryStatus is the state of a delivery.
type DeliveryStatus string

// The states of a delivery. The comment of package webhook shows the transitions.
const (
	// DeliveryPending means that the delivery waits for its first attempt. After a user
	// recovered the delivery, it waits for the first attempt of a new schedule of
	// attempts.
	DeliveryPending DeliveryStatus = "pending"
	// DeliveryDelivered means that the endpoint responded with a 2xx status.
	DeliveryDelivered DeliveryStatus = "delivered"
	// DeliveryFailed means that the last attempt failed and that more attempts will be
	// made.
	DeliveryFailed DeliveryStatus = "failed"
	// DeliveryDeadLettered means that there will be no more attempts: all scheduled
	// attempts have failed, the endpoint responded with status 410, or the IP address
	// of its host must not be called.
	DeliveryDeadLettered DeliveryStatus = "dead_lettered"
	// DeliveryCanceled means that the endpoint was disabled or deleted while the
	// delivery was waiting.
	DeliveryCanceled DeliveryStatus = "canceled"
)

// DeliveryFilter restricts a list of deliveries.
type DeliveryFilter struct {
	Status *DeliveryStatus
	Event  *affiliate.EventID
	Type   affiliate.EventName
	// Created is the period of the events.
	Created affiliate.Period
}

// Sender is only used as the type parameter of SenderID.
type Sender struct{}

// EndpointChange is an update of an endpoint by a user.
type EndpointChange struct {
	Subscriptions affiliate.Change[[]string]
	Active        affiliate.Change[bool]
	Description   affiliate.Change[string]
}

// CancelDeliveries is the job that sets the status of the waiting deliveries of a
// disabled or deleted endpoint to canceled. The sender ignores these deliveries even
// before the job runs.
type CancelDeliveries struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Mode      affiliate.Mode        `json:"mode"`
	Endpoint  affiliate.EndpointID  `json:"endpoint"`
}

// Kind returns the name of the job.
func (CancelDeliveries) Kind() string { return "cancel_deliveries" }

// RecoverDeliveries is the job that sends deliveries of an endpoint again, each with a
// new schedule of attempts. It selects the deliveries that had one of Statuses when the
// recovery was requested.
type RecoverDeliveries struct {
	Workspace   affiliate.WorkspaceID `json:"workspace"`
	Mode        affiliate.Mode        `json:"mode"`
	Endpoint    affiliate.EndpointID  `json:"endpoint"`
	Since       time.Time             `json:"since"` // earliest time of the event, inclusive
	Until       time.Time             `json:"until"` // latest time of the event, exclusive
	Statuses    []DeliveryStatus      `json:"statuses"`
	RequestedAt time.Time             `json:"requested_at"` // deliveries that ended later are not recovered
}

// Kind returns the name of the job.
func (RecoverDeliveries) Kind() string { return "recover_deliveries" }

const (
	// allEvents is the subscription to all events.
	allEvents = "*"
	// nounSuffix is the end of a subscription to all events of a noun.
	nounSuffix = ".*"
)

// CheckSubscription returns the message of a violation if a subscription of an endpoint
// is not valid; empty if it is valid. A subscription must be *, the name of an event in
// the catalogue, or noun.* for a noun of the catalogue.
func CheckSubscription(subscription string) string {
	if subscription == allEvents {
		return ""
	}
	if subscription == string(affiliate.EventWebhookPing) {
		return "must not be webhook.ping, which only a test sends"
	}
	noun, all := strings.CutSuffix(subscription, nounSuffix)
	for _, kind := range affiliate.Catalogue() {
		if all && kind.Name.Noun() == noun || string(kind.Name) == subscription {
			return ""
		}
	}
	if all {
		return "must begin with the noun of an event"
	}
	return "must be the name of an event"
}
