package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
	"time"

	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// FraudSignal is the result of a fraud rule that fired.
type FraudSignal = fraud.Signal

// FraudAction says what the service did with a conversion that the fraud rules suspect.
type FraudAction string

// The actions.
const (
	// FraudObserved means that the suspicion was only recorded.
	FraudObserved FraudAction = "observed"
	// FraudFlagged means that the commission needs review.
	FraudFlagged FraudAction = "flagged"
	// FraudBlocked means that the conversion earns nothing.
	FraudBlocked FraudAction = "blocked"
)

// IsEnabled reports whether the fraud rules are applied.
func (p FraudPolicy) IsEnabled() bool { return p != "" && p != FraudOff }

// ActionForScore returns the action that the policy requires for a score; empty if the
// score is not suspicious. Conversions are only blocked if they have the maximum score.
func (p FraudPolicy) ActionForScore(score int) FraudAction {
	switch {
	case score < fraud.SuspiciousScore:
		return ""
	case p == FraudObserve:
		return FraudObserved
	case p == FraudBlock && score >= fraud.MaxScore:
		return FraudBlocked
	}
	return FraudFlagged
}

// Origin is a network and a browser with which a partner used its account. It is not
// the origin of a web page (see ParseOrigin). IPPrefix is never a complete IP address.
// AgentHash is nil if the user agent is unknown.
type Origin struct {
	User      UserID
	IPPrefix  string
	AgentHash []byte
	SeenAt    time.Time
}

// OriginRetention is how long origins are stored.
const OriginRetention = fraud.DeviceWindow

// agentHashSize is in bytes.
const agentHashSize = 16

// AgentHash returns the keyed hashes of a user agent. Their keys change every calendar month
// (UTC) and are derived from the hash keys. The collector computes the same hash under the
// first key, so partners, buyers and clicks can be compared.
func AgentHash(keys HashKeys, agent string, at time.Time) Digests {
	return keys.Digests(func(key []byte) []byte {
		derive := hmac.New(sha256.New, key)
		derive.Write([]byte("clicks " + at.UTC().Format("2006-01")))
		mac := hmac.New(sha256.New, derive.Sum(nil))
		mac.Write([]byte("ua\x00" + agent))
		return mac.Sum(nil)[:agentHashSize]
	})
}

// FormerEmailDigests returns the digests under which the former e-mail address of a partner
// is stored. The address is normalised like that of a buyer, so that different spellings of
// one mailbox's address have equal digests. They do not depend on a workspace, because a
// partner can join further programmes after the change. The result is nil if the text is not
// an e-mail address.
func FormerEmailDigests(keys HashKeys, address string) Digests {
	local, domain, ok := FoldEmail(address)
	if !ok {
		return nil
	}
	return keys.Digests(func(key []byte) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte("former_email\x00" + local + "@" + domain))
		return mac.Sum(nil)
	})
}

// FraudEventID identifies a fraud event.
type FraudEventID = ID[FraudEvent]

// FraudEventStatus says whether a person has reviewed a fraud event, and with which
// result.
type FraudEventStatus string

// The statuses. Only an open fraud event can be resolved.
const (
	FraudEventOpen      FraudEventStatus = "open"
	FraudEventConfirmed FraudEventStatus = "confirmed"
	FraudEventDismissed FraudEventStatus = "dismissed"
)

// CheckOpen returns an error if the fraud event is already resolved. Errors:
// FRAUD_EVENT_RESOLVED.
func (s FraudEventStatus) CheckOpen() error {
	if s == FraudEventOpen {
		return nil
	}
	return RefuseStatus(ReasonFraudEventResolved, s)
}

// FraudEvent records a conversion that the fraud rules suspect. A decision creates at
// most one fraud event, which has the id of the decision.
type FraudEvent struct {
	ID                    FraudEventID
	Scope                 Scope
	Program               ProgramID
	ProgramName           string
	Participant           ParticipantID
	PartnerName           string
	Conversion            ConversionID
	ExternalTransactionID string
	Commission            *CommissionID // nil if nothing was earned
	Score                 int           // 0 to 100
	Signals               []FraudSignal
	Action                FraudAction
	Status                FraudEventStatus
	Note                  *string
	ResolvedBy            *UserID
	ResolvedAt            *time.Time
	CreatedAt             time.Time
}

// FraudEventFilter restricts a list of fraud events. A zero field matches every fraud
// event.
type FraudEventFilter struct {
	Status      FraudEventStatus
	Program     *ProgramID
	Participant *ParticipantID
	Created     Period
}

// FraudResolution is the result of a person's review of a fraud event.
type FraudResolution struct {
	Scope   Scope
	Event   FraudEventID
	Outcome FraudEventStatus // confirmed or dismissed
	Note    *string
	By      Actor
	At      time.Time
}

// ProgramFraudPolicy is the fraud policy of a programme with its settings.
type ProgramFraudPolicy struct {
	Program   ProgramID
	Policy    FraudPolicy
	Settings  FraudSettings
	UpdatedAt time.Time
}

// FraudScore returns the total score of signals, at most fraud.MaxScore.
func FraudScore(signals []FraudSignal) int {
	score := 0
	for _, s := range signals {
		score += s.Score
	}
	return min(score, fraud.MaxScore)
}

// FraudPolicy says what happens to a conversion that the fraud rules suspect.
type FraudPolicy string

// The policies (docs/merchant/programmes.md#fraud-rules).
const (
	FraudOff     FraudPolicy = "off"
	FraudObserve FraudPolicy = "observe"
	FraudFlag    FraudPolicy = "flag"
	FraudBlock   FraudPolicy = "block"
)

// FraudSettings are a programme's settings for the fraud rules: the disabled rules, and
// the countries, websites and terms that some rules look for.
type FraudSettings = fraud.Settings
