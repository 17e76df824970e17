// Package click has the types that describe clicks, which are visits through a partner's link,
// and clicks that could not be stored.
package click

import (
	"strings"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Consent says whether the visitor has agreed to be tracked, as the browser script reports it.
type Consent string

// The values of Consent. A click with denied consent has no hash of address or agent.
const (
	ConsentGranted Consent = "granted"
	ConsentDenied  Consent = "denied"
	ConsentUnknown Consent = "unknown"
)

// Click is a registered click with the participant to whom its code belonged when the
// click was resolved. All times are UTC with milliseconds.
type Click struct {
	ID affiliate.ClickID
	affiliate.Scope
	Program      affiliate.ProgramID     `db:"program_id"`
	Participant  affiliate.ParticipantID `db:"participant_id"`
	Link         affiliate.LinkID        `db:"link_id"`
	ReferralCode string                  // case-folded
	// ClickedAt is the time that the id contains. It selects the partition of the
	// database table. A click that arrives a second time therefore goes to the same
	// partition and is recognized as a duplicate. ClickedAt has no other use.
	ClickedAt time.Time
	// ReceivedAt is when the collector received the click. The attribution window starts here.
	ReceivedAt time.Time
	// ExpiresAt is the last instant of the attribution window, inclusive.
	ExpiresAt time.Time
	// CreatedAt is when the click was stored.
	CreatedAt time.Time
	// OccurredAt is the time of the click by the visitor's clock; nil if the browser did not send it.
	OccurredAt *time.Time

	LandingURL     string // origin and path
	ReferrerDomain string
	UTM
	SubID     string
	Consent   Consent
	Language  string
	Screen    string
	IPHash    []byte // HMAC with the key of the click's month (UTC)
	IPPrefix  string // /24 or /48
	UAHash    []byte
	IsBot     bool
	BotReason string
	// Country is an ISO 3166-1 alpha-2 code. Region is the part of an ISO 3166-2 code
	// after the dash.
	Country, Region string
	// Device is desktop, mobile or tablet. Browser and OS are names without versions.
	Device, Browser, OS string
	// PaidPlatform is the ad platform whose click id the landing URL carried.
	PaidPlatform string
	// Unique says that this is the first click of its visitor (address, agent and code) in 24
	// hours. It is false for bots and for visitors who cannot be distinguished.
	Unique bool `db:"is_unique"`
	// ForeignOrigin says that the workspace does not allow the page's origin.
	ForeignOrigin bool
}

// UTM holds the campaign parameters of the landing URL.
type UTM struct {
	Source   string `db:"utm_source,nullable"`
	Medium   string `db:"utm_medium,nullable"`
	Campaign string `db:"utm_campaign,nullable"`
	Term     string `db:"utm_term,nullable"`
	Content  string `db:"utm_content,nullable"`
}

// WindowEnd returns the last instant, inclusive, at which a conversion can be credited to a
// click that was received at the given time. It is exactly days × 24 hours later.
func WindowEnd(receivedAt time.Time, days int) time.Time {
	return receivedAt.Add(time.Duration(days) * 24 * time.Hour)
}

// FoldCode returns the form in which referral codes are stored and compared.
func FoldCode(code string) string { return strings.ToLower(code) }

// Source identifies the participant of a click that a collector could not resolve because
// it could not read the edge directory, which is the list of public keys and codes in
// Redis. It consists of the digest of the public key and the referral code.
type Source struct {
	KeyDigest [32]byte
	Code      string // case-folded
}

// Target is the participant that a Source leads to.
type Target struct {
	affiliate.Scope
	Program     affiliate.ProgramID     `db:"program_id"`
	Participant affiliate.ParticipantID `db:"participant_id"`
	Link        affiliate.LinkID        `db:"link_id"`
	WindowDays  int
}

// Resolution is the target of a Source, or the reason why there is none.
type Resolution struct {
	Target Target
	// DeadReason says why there is no target. It is empty if Target is set.
	DeadReason DeadReason
}

// DeadLetter is a record of the click stream that could not be stored as a click. A
// record is acknowledged after a click or a dead letter was stored for it.
type DeadLetter struct {
	// ID is the id of the click, or a new id if the record has none.
	ID     affiliate.ClickID
	Reason DeadReason
	// Record is the marshalled edge.v1.Click, or bytes that could not be decoded.
	Record []byte
	At     time.Time
}

// DeadReason says why a click could not be stored.
type DeadReason string

// The reasons.
const (
	// Malformed means that the bytes are not a click, or that its ids are not valid.
	Malformed DeadReason = "malformed"
	// Rejected means that the database rejected the values.
	Rejected DeadReason = "rejected"
	// KeyUnknown means that a collector accepted the click without an edge directory, and the public key is unknown.
	KeyUnknown DeadReason = "public_key_unknown"
	// CodeUnknown means that a collector accepted the click without an edge
	// directory and that no active programme of the key's workspace has such a code.
	CodeUnknown DeadReason = "referral_code_unknown"
)

// DeadReasons returns all reasons.
func DeadReasons() []DeadReason {
	return []DeadReason{Malformed, Rejected, KeyUnknown, CodeUnknown}
}

// AwaitedClick identifies a click that was not stored yet when conversions that name it
// were recorded. It may have been stored since then.
type AwaitedClick struct {
	Workspace affiliate.WorkspaceID `json:"workspace"`
	Click     affiliate.ClickID     `json:"click"`
}
