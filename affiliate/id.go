package affiliate

import (
	"crypto/rand"
	"time"

	"github.com/google/uuid"
)

// ID is the UUIDv7 of one kind of object. The compiler rejects an ID[Program] where an
// ID[Participant] is required. The zero value means that there is no id.
type ID[T any] struct{ uuid.UUID }

type (
	// WorkspaceID identifies a workspace.
	WorkspaceID = ID[Workspace]
	// UserID identifies a user, either a merchant's or a partner's.
	UserID = ID[User]
	// SessionID identifies a session.
	SessionID = ID[Session]
	// APIKeyID identifies an API key.
	APIKeyID = ID[APIKey]
	// ServiceTokenID identifies a service token.
	ServiceTokenID = ID[ServiceToken]
	// ActorID identifies a user, an API key or a service token.
	ActorID = ID[Actor]
	// ProgramID identifies a programme.
	ProgramID = ID[Program]
	// ParticipantID identifies a partner in one programme.
	ParticipantID = ID[Participant]
	// ClickID identifies a click.
	ClickID = ID[Click]
	// ConversionID identifies a conversion.
	ConversionID = ID[Conversion]
	// CommissionID identifies a commission.
	CommissionID = ID[Commission]
	// DecisionID identifies an attribution decision.
	DecisionID = ID[Decision]
	// LoginAttemptID identifies an attempt to log in.
	LoginAttemptID = ID[LoginAttempt]
	// GroupID identifies a group of partners.
	GroupID = ID[Group]
	// LinkID identifies a link.
	LinkID = ID[Link]
	// PromoCodeID identifies a promo code.
	PromoCodeID = ID[PromoCode]
	// InviteID identifies an invitation.
	InviteID = ID[Invite]
	// EventID identifies an event.
	EventID = ID[Event]
	// EndpointID identifies a webhook endpoint.
	EndpointID = ID[Endpoint]
	// DeliveryID identifies the delivery of one event to one endpoint.
	DeliveryID = ID[Delivery]
	// SenderID identifies a process that sends webhooks.
	SenderID = ID[Sender]
)

// NewID returns a new UUIDv7 (RFC 9562). It contains the given time, to the millisecond,
// and 74 random bits. Ids of the same millisecond have no order.
func NewID[T any](now time.Time) ID[T] {
	var u uuid.UUID
	// crypto/rand.Read never fails: it crashes the program instead.
	_, _ = rand.Read(u[6:])
	putMillis(&u, now.UnixMilli())
	u[6] = u[6]&0x0f | 0x70
	u[8] = u[8]&0x3f | 0x80
	return ID[T]{u}
}

func putMillis(u *uuid.UUID, ms int64) {
	for i := 5; i >= 0; i-- {
		u[i] = byte(ms)
		ms >>= 8
	}
}

// ParseID parses a UUID in the canonical form of 36 characters. It rejects other forms,
// for example with braces or with the prefix urn:uuid.
func ParseID[T any](s string) (ID[T], bool) {
	if len(s) != 36 {
		return ID[T]{}, false
	}
	u, err := uuid.Parse(s)
	return ID[T]{u}, err == nil
}

// IDFromBytes returns the id whose binary form is b. ok is false if b does not have 16
// bytes.
func IDFromBytes[T any](b []byte) (id ID[T], ok bool) {
	u, err := uuid.FromBytes(b)
	return ID[T]{u}, err == nil
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

// FirstID returns the lowest id that an object can have that was created at the given
// time or later. The time is rounded down to a millisecond.
func FirstID[T any](at time.Time) ID[T] {
	var u uuid.UUID
	putMillis(&u, max(0, at.UnixMilli()))
	u[6], u[8] = 0x70, 0x80 // version and variant of a UUIDv7; the random bits are zero
	return ID[T]{u}
}
