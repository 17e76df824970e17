package affiliate

import (
	"strings"
	"time"
)

// Consent is what the visitor agreed to, as the browser script reports it.
type Consent string

// The words of consent. A click of a visitor who denied it carries no hash of
// an address or an agent.
const (
	ConsentGranted Consent = "granted"
	ConsentDenied  Consent = "denied"
	ConsentUnknown Consent = "unknown"
)

// Click is one registered click, resolved to the participant that its code
// belonged to at that time. Instants are UTC with milliseconds.
type Click struct {
	ID           ClickID
	Scope        Scope
	Program      ProgramID
	Participant  ParticipantID
	Link         LinkID
	ReferralCode string // case-folded
	// ClickedAt is the time inside the id. It picks the partition, so that a
	// repeated click always meets its first copy; it is no business time.
	ClickedAt time.Time
	// ReceivedAt is when the edge took the click; the window runs from here.
	ReceivedAt time.Time
	// ExpiresAt is the last instant of the attribution window, inclusive.
	ExpiresAt time.Time
	// CreatedAt is when ingestion stored it.
	CreatedAt time.Time
	// OccurredAt is the visitor's device's word for it, nil when it said nothing.
	OccurredAt *time.Time

	LandingURL     string // origin and path
	ReferrerDomain string
	UTM            UTM
	SubID          string
	Consent        Consent
	Language       string
	Screen         string
	IPHash         []byte // under the key of its month
	IPPrefix       string // /24 or /48
	UAHash         []byte
	IsBot          bool
	BotReason      string
	// Country is ISO 3166-1 alpha-2, Region the part of ISO 3166-2 behind the dash.
	Country, Region string
	// Device is desktop, mobile or tablet; Browser and OS are names without versions.
	Device, Browser, OS string
	// PaidPlatform is the ad platform whose click id the landing URL carried.
	PaidPlatform string
	// Unique: the first click of its visitor (address, agent and code) in 24 hours.
	// Clicks of bots, and of visitors who cannot be told apart, are not.
	Unique bool
	// ForeignOrigin: the page is none of the workspace's allowed origins.
	ForeignOrigin bool
}

// UTM are the campaign parameters of the landing URL.
type UTM struct{ Source, Medium, Campaign, Term, Content string }

// WindowEnd is the last instant at which a click received at receivedAt still
// earns: exactly days × 24 hours later, inclusive.
func WindowEnd(receivedAt time.Time, days int) time.Time {
	return receivedAt.Add(time.Duration(days) * 24 * time.Hour)
}

// FoldCode is the form in which referral codes are stored and compared.
func FoldCode(code string) string { return strings.ToLower(code) }

// ClickSource is what an edge that could not look anything up knew about a
// click: the digest of the public key and the code.
type ClickSource struct {
	KeyDigest [32]byte
	Code      string // case-folded
}

// ClickTarget is what a ClickSource leads to.
type ClickTarget struct {
	Scope       Scope
	Program     ProgramID
	Participant ParticipantID
	Link        LinkID
	WindowDays  int
}

// ClickResolution is what became of a ClickSource: its target, or why there is
// none.
type ClickResolution struct {
	Target ClickTarget
	// Dead is empty when Target is set.
	Dead ClickDeadReason
}

// ClickDeadLetter is a record of the click stream that could not be stored,
// with the reason. Nothing that was acknowledged is dropped silently.
type ClickDeadLetter struct {
	// ID is the click's, or a fresh one when the record has none.
	ID     ClickID
	Reason ClickDeadReason
	// Record is the marshalled edge.v1.Click, or the raw bytes that are none.
	Record []byte
	At     time.Time
}

// ClickDeadReason says why a click is dead.
type ClickDeadReason string

// The reasons.
const (
	// ClickMalformed: the bytes are no click, or its ids are none.
	ClickMalformed ClickDeadReason = "malformed"
	// ClickRejected: the database refused the values.
	ClickRejected ClickDeadReason = "rejected"
	// ClickKeyUnknown: taken by a blind edge, and no such public key exists.
	ClickKeyUnknown ClickDeadReason = "public_key_unknown"
	// ClickCodeUnknown: taken by a blind edge, and the key's workspace has no
	// such code in an active programme.
	ClickCodeUnknown ClickDeadReason = "referral_code_unknown"
)
