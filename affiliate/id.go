package affiliate

import (
	"crypto/rand"
	"time"

	"github.com/google/uuid"
)

// ID is the id of one kind of object. The service creates ids as UUIDv7. The compiler rejects a ProgramID
// where a ParticipantID is required. The zero value means that there is no id.
type ID[Kind any] struct{ uuid.UUID }

// AnyID is the set of all types of ids.
type AnyID interface{ ~struct{ uuid.UUID } }

type (
	// WorkspaceID identifies a workspace.
	WorkspaceID = ID[workspaceKind]
	// UserID identifies a user: a person with a merchant's account, or a partner.
	UserID = ID[userKind]
	// SessionID identifies a session.
	SessionID = ID[sessionKind]
	// APIKeyID identifies an API key.
	APIKeyID = ID[apiKeyKind]
	// ServiceTokenID identifies a service token.
	ServiceTokenID = ID[serviceTokenKind]
	// ActorID identifies a user, an API key or a service token.
	ActorID = ID[actorKind]
	// ProgramID identifies a programme.
	ProgramID = ID[programKind]
	// ParticipantID identifies a partner in one programme.
	ParticipantID = ID[participantKind]
	// ClickID identifies a click.
	ClickID = ID[clickKind]
	// ConversionID identifies a conversion.
	ConversionID = ID[conversionKind]
	// CommissionID identifies a commission.
	CommissionID = ID[commissionKind]
	// DecisionID identifies an attribution decision.
	DecisionID = ID[decisionKind]
	// LoginAttemptID identifies an attempt to log in.
	LoginAttemptID = ID[loginAttemptKind]
	// GroupID identifies a group of partners.
	GroupID = ID[groupKind]
	// LinkID identifies a link.
	LinkID = ID[linkKind]
	// PromoCodeID identifies a promo code.
	PromoCodeID = ID[promoCodeKind]
	// PayoutID identifies a payout.
	PayoutID = ID[payoutKind]
	// InviteID identifies an invitation.
	InviteID = ID[inviteKind]
	// EventID identifies an event.
	EventID = ID[eventKind]
	// EndpointID identifies a webhook endpoint.
	EndpointID = ID[endpointKind]
	// DeliveryID identifies the delivery of one event to one endpoint.
	DeliveryID = ID[deliveryKind]
	// SenderID identifies a process that sends webhooks.
	SenderID = ID[senderKind]
	// RequestID identifies a request. The response to the request and its log lines contain the id.
	RequestID = ID[requestKind]
)

// The kinds of objects. They are only type arguments of ID.
type (
	workspaceKind    struct{}
	userKind         struct{}
	sessionKind      struct{}
	apiKeyKind       struct{}
	serviceTokenKind struct{}
	actorKind        struct{}
	programKind      struct{}
	participantKind  struct{}
	clickKind        struct{}
	conversionKind   struct{}
	commissionKind   struct{}
	decisionKind     struct{}
	loginAttemptKind struct{}
	groupKind        struct{}
	linkKind         struct{}
	promoCodeKind    struct{}
	payoutKind       struct{}
	inviteKind       struct{}
	eventKind        struct{}
	endpointKind     struct{}
	deliveryKind     struct{}
	senderKind       struct{}
	requestKind      struct{}
)

// NewID returns a new UUIDv7 (RFC 9562). It contains the given time, to the millisecond,
// and 74 random bits. Ids of the same millisecond have no order.
func NewID[I AnyID](now time.Time) I {
	var u uuid.UUID
	// crypto/rand.Read never fails: it crashes the program instead.
	_, _ = rand.Read(u[6:])
	putMillis(&u, now.UnixMilli())
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return I{u}
}

func putMillis(u *uuid.UUID, ms int64) {
	for i := 5; i >= 0; i-- {
		u[i] = byte(ms)
		ms >>= 8
	}
}

// ParseID parses a UUID in the canonical form of 36 characters. It rejects other forms,
// for example with braces or with the prefix urn:uuid.
func ParseID[I AnyID](s string) (I, bool) {
	if len(s) != 36 {
		return I{}, false
	}
	u, err := uuid.Parse(s)
	return I{u}, err == nil
}

// IDFromBytes returns the id whose binary form is b. ok is false if b does not have 16
// bytes.
func IDFromBytes[I AnyID](b []byte) (id I, ok bool) {
	u, err := uuid.FromBytes(b)
	return I{u}, err == nil
}

// IsZero reports whether id is the zero value.
func (id ID[T]) IsZero() bool { return id.UUID == uuid.Nil }

// Time returns the time that a UUIDv7 contains, in UTC to the millisecond. ok is false
// for other versions of UUIDs.
func (id ID[T]) Time() (t time.Time, ok bool) {
	if id.Version() != 7 {
		return time.Time{}, false
	}
	var ms int64
	for _, b := range id.UUID[:6] {
		ms = ms<<8 | int64(b)
	}
	return time.UnixMilli(ms).UTC(), true
}

// FirstID returns the lowest possible id of an object that was created at the given time or
// later. The time is rounded down to a millisecond.
func FirstID[I AnyID](at time.Time) I {
	var u uuid.UUID
	putMillis(&u, max(0, at.UnixMilli()))
	u[6], u[8] = 0x70, 0x80 // version and variant of a UUIDv7; the random bits are zero
	return I{u}
}
