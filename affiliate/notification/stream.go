package notification

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// StreamID identifies an open stream of notifications.
type StreamID = affiliate.ID[Stream]

// Stream is an open stream of notifications.
type Stream struct {
	ID     StreamID
	Reader Reader
	// Session is the session whose access token or ticket has opened the stream. The
	// stream ends with the session.
	Session affiliate.SessionID
	// Ticket is the digest of the ticket that has opened the stream; nil if an access
	// token has opened it.
	Ticket    []byte
	ExpiresAt time.Time // when the access token expires
}

// Limits on streams, each of which keeps a connection open.
const (
	// MaxStreams is the number of open streams of one user.
	MaxStreams = 5
	// StreamTicketLife is the time within which a ticket must open its stream.
	StreamTicketLife = time.Minute
	// MaxReplay is the number of notifications that a stream replays. ReplayLife is how
	// long a notification can be replayed.
	MaxReplay  = 1000
	ReplayLife = 24 * time.Hour
)

// StreamTicket is a stored ticket, which opens a stream instead of an access token.
type StreamTicket struct {
	Digest    []byte
	Session   affiliate.SessionID `db:"session_id"`
	Kind      affiliate.AccountKind
	Mode      affiliate.Mode
	CreatedAt time.Time
	OpenedAt  *time.Time // nil: it has not opened a stream yet
	ExpiresAt time.Time  // when the access token expires that has created the ticket
}

// Usable reports whether the ticket can open or reopen a stream at the given time.
func (t StreamTicket) Usable(now time.Time) bool {
	return now.Before(t.ExpiresAt) && (t.OpenedAt != nil || now.Before(t.CreatedAt.Add(StreamTicketLife)))
}

// streamTicketPrefix makes tickets recognizable for secret scanners.
const streamTicketPrefix = "tkt_"

// NewStreamTicket returns a ticket of 256 random bits and its digest.
func NewStreamTicket() (ticket string, digest []byte) {
	random := make([]byte, 32)
	_, _ = rand.Read(random) // crypto/rand.Read never fails
	ticket = streamTicketPrefix + base64.RawURLEncoding.EncodeToString(random)
	return ticket, DigestStreamTicket(ticket)
}

// DigestStreamTicket returns the digest by which a ticket is looked up.
func DigestStreamTicket(ticket string) []byte {
	digest := sha256.Sum256([]byte(ticket))
	return digest[:]
}

// FeedState says how far a feed has been sequenced.
type FeedState struct {
	LastSeq int64 // the sequence number of the newest notification
	// ReplayAfter is the lowest number after which notifications can be replayed.
	ReplayAfter int64
	// Version increases when notifications are read or dismissed, or when preferences
	// change.
	Version int64
}

// CanReplay reports whether all notifications after a sequence number can be sent.
func (s FeedState) CanReplay(after int64) bool { return s.ReplayAfter <= after && after <= s.LastSeq }

// StreamCheck says whether a stream may stay open.
type StreamCheck struct {
	Current   bool // false: the stream was closed, or its ticket has reopened it
	Permitted bool // false: the session has ended, or the role has changed
}
