package fraud

import (
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
)

// Action says what the service did with a conversion that the fraud rules suspect.
type Action string

// The actions.
const (
	// Observed means that the suspicion was only recorded.
	Observed Action = "observed"
	// Flagged means that the commission needs review.
	Flagged Action = "flagged"
	// Blocked means that the conversion earns nothing.
	Blocked Action = "blocked"
)

// IsEnabled reports whether the fraud rules are applied.
func (p Policy) IsEnabled() bool { return p != "" && p != Off }

// ActionForScore returns the action that the policy requires for a score; empty if the
// score is not suspicious. Conversions are only blocked if they have the maximum score.
func (p Policy) ActionForScore(score int) Action {
	switch {
	case score < SuspiciousScore:
		return ""
	case p == Observe:
		return Observed
	case p == Block && score >= MaxScore:
		return Blocked
	}
	return Flagged
}

// Origin is a network and a browser with which a partner used its account. It is not
// the origin of a web page (see ParseOrigin). IPPrefix is never a complete IP address.
// AgentHash is nil if the user agent is unknown.
type Origin struct {
	User      affiliate.UserID
	IPPrefix  string
	AgentHash []byte
	SeenAt    time.Time
}

// OriginRetention is how long origins are stored.
const OriginRetention = DeviceWindow

// agentHashSize is the length of a hash of a user agent in bytes.
const agentHashSize = 16

// AgentHash returns the keyed hashes of a user agent. Their keys change every calendar month
// (UTC) and are derived from the hash keys. The collector computes the same hash under the
// first key, so partners, buyers and clicks can be compared.
func AgentHash(keys affiliate.HashKeys, agent string, at time.Time) affiliate.Digests {
	return keys.Digests(func(key []byte) []byte {
		derive := hmac.New(sha256.New, key)
		derive.Write([]byte("clicks " + at.UTC().Format("2006-01")))
		mac := hmac.New(sha256.New, derive.Sum(nil))
		mac.Write([]byte("ua\x00" + agent))
		return mac.Sum(nil)[:agentHashSize]
	})
}

// FormerEmailDigests returns the digests under which the former e-mail address of a partner is
// stored. The address is normalised like the address of a buyer, so that different spellings of
// one mailbox's address have equal digests. The digests do not depend on a workspace, because a
// partner can join further programmes after the change. The result is nil if the text is not an
// e-mail address.
func FormerEmailDigests(keys affiliate.HashKeys, address string) affiliate.Digests {
	local, domain, ok := affiliate.FoldEmail(address)
	if !ok {
		return nil
	}
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("former_email\x00" + local + "@" + domain))
		return mac.Sum(nil)
	})
}

// EventID identifies a fraud event.
type EventID = affiliate.ID[Event]

// EventStatus says whether a person has reviewed a fraud event, and with which result.
type EventStatus string

// The statuses. Only an open fraud event can be resolved.
const (
	EventOpen      EventStatus = "open"
	EventConfirmed EventStatus = "confirmed"
	EventDismissed EventStatus = "dismissed"
)

// Event is a record of a conversion that the fraud rules suspect. A decision creates at most
// one fraud event, which has the id of the decision.
type Event struct {
	ID EventID
	affiliate.Scope
	Program               affiliate.ProgramID `db:"program_id"`
	ProgramName           string
	Participant           affiliate.ParticipantID `db:"participant_id"`
	PartnerName           string
	Conversion            affiliate.ConversionID `db:"conversion_id"`
	ExternalTransactionID string
	Commission            *affiliate.CommissionID `db:"commission_id"` // nil if nothing was earned
	Score                 int                     // 0 to 100
	Signals               []Signal
	Action                Action
	Status                EventStatus
	Note                  *string
	ResolvedBy            *affiliate.UserID
	ResolvedByName        *string // current name; nil if the member has left
	ResolvedAt            *time.Time
	CreatedAt             time.Time
}

// Resolve returns e with the outcome of its review. Errors: FRAUD_EVENT_RESOLVED if e is not open.
func (e Event) Resolve(outcome EventStatus, note *string, by affiliate.Actor, at time.Time) (Event, error) {
	if e.Status != EventOpen {
		return e, affiliate.RefuseStatus(affiliate.ReasonFraudEventResolved, e.Status)
	}
	e.Status, e.Note, e.ResolvedAt = outcome, note, &at
	if id := by.ID(); id != nil {
		e.ResolvedBy = &affiliate.UserID{UUID: id.UUID}
	}
	return e, nil
}

// EventFilter restricts a list of fraud events. A zero field matches every fraud event.
type EventFilter struct {
	Status      EventStatus
	Program     *affiliate.ProgramID
	Participant *affiliate.ParticipantID
	Created     affiliate.Period
}

// ProgramFraudPolicy is the fraud policy of a programme with its settings.
type ProgramFraudPolicy struct {
	Program   affiliate.ProgramID `db:"program_id"`
	Policy    Policy              `db:"fraud_policy"`
	Settings  Settings            `db:"fraud_settings"`
	UpdatedAt time.Time
}

// PolicyObject is the fraud policy of a programme as the audit log shows it.
type PolicyObject struct {
	Policy           Policy   `json:"fraud_policy"`
	DisabledRules    []string `json:"disabled_rules"`
	BlockedCountries []string `json:"blocked_countries"`
	CouponSites      []string `json:"coupon_sites"`
	BrandTerms       []string `json:"brand_terms"`
}

// Object returns p as the audit log shows it.
func (p ProgramFraudPolicy) Object() PolicyObject {
	list := func(texts []string) []string { return append([]string{}, texts...) }
	return PolicyObject{
		Policy: p.Policy, DisabledRules: list(p.Settings.DisabledRules), BlockedCountries: list(p.Settings.BlockedCountries),
		CouponSites: list(p.Settings.CouponSites), BrandTerms: list(p.Settings.BrandTerms),
	}
}

// Score returns the total score of signals, at most MaxScore.
func Score(signals []Signal) int {
	score := 0
	for _, s := range signals {
		score += s.Score
	}
	return min(score, MaxScore)
}

// Policy says what happens to a conversion that the fraud rules suspect.
type Policy string

// The policies (docs/merchant/programmes.md#fraud-rules).
const (
	Off     Policy = "off"
	Observe Policy = "observe"
	Flag    Policy = "flag"
	Block   Policy = "block"
)
