package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
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

// ReviewFraud and ReviewRefundRate are review reasons of commissions. RejectedForFraud
// is the rejection code of a commission that a person found fraudulent.
const (
	ReviewFraud      = "fraud"
	ReviewRefundRate = "refund_rate"
	RejectedForFraud = "fraud"
)

// isEnabled reports whether the fraud rules are applied.
func (p FraudPolicy) isEnabled() bool { return p != "" && p != FraudOff }

// actionForScore returns the action that the policy requires for a score; empty if the
// score is not suspicious. Conversions are only blocked if they have the maximum score.
func (p FraudPolicy) actionForScore(score int) FraudAction {
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

// Buyer holds data about the buyer while a decision is made. Buyer is not stored; only
// the hashes in Conversion are.
type Buyer struct {
	// OwnsEmail reports whether an e-mail address belongs to the buyer's mailbox. It
	// is nil if the buyer's e-mail address is unknown.
	OwnsEmail func(email string) bool
	// IPPrefix is the /24 or /48 of the buyer's IP address; empty if unknown.
	IPPrefix string
	// EarlierEmailHashes holds hashes of the buyer's e-mail address under the hash keys
	// other than the first. Earlier conversions can have one of them.
	EarlierEmailHashes [][]byte
	// EmailDigests are the digests of the buyer's e-mail address that are compared with former
	// addresses of partners (FormerEmailDigests). They are nil if the address is unknown. They
	// are also nil for a stored conversion, which has other hashes of the address.
	EmailDigests Digests
	// AgentHashes holds hashes of the buyer's user agent (see AgentHash), one for each
	// of the last months, because the key changes every month.
	AgentHashes [][]byte
}

// ClickTraits holds the properties of a click that the fraud rules use. The hashes use
// the key of the click's month.
type ClickTraits struct {
	IPHash   []byte
	IPPrefix string
	UAHash   []byte
	Bot      bool
	// Country is an ISO 3166-1 alpha-2 code; empty if unknown.
	Country string
	// PaidPlatform is Click.PaidPlatform.
	PaidPlatform string
	Referrer     string // domain
	UTM          UTM
}

// Traits returns the properties of c that the fraud rules use.
func (c Click) Traits() ClickTraits {
	return ClickTraits{
		IPHash: c.IPHash, IPPrefix: c.IPPrefix, UAHash: c.UAHash, Bot: c.IsBot,
		Country: c.Country, PaidPlatform: c.PaidPlatform, Referrer: c.ReferrerDomain, UTM: c.UTM,
	}
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

// FraudCandidates returns the participants to which the signals lead and for which the
// caller must load fraud facts. Each participant is returned once.
func (in AttributionInputs) FraudCandidates() []Earner {
	var candidates []Earner
	seen := map[ParticipantID]bool{}
	for _, earner := range []*Earner{in.clickEarner(), in.promoCodeEarner(), in.bindingEarner()} {
		if earner == nil || seen[earner.Participant] || !earner.FraudPolicy.isEnabled() ||
			earner.ProgramStatus != ProgramActive || earner.ParticipantStatus != ParticipantApproved || earner.ParticipantErased {
			continue
		}
		seen[earner.Participant] = true
		candidates = append(candidates, *earner)
	}
	return candidates
}

// applyFraudRules applies the fraud rules to the conversion and the winning signal.
// reviews are the reasons why the commission needs review. why is set if the conversion
// is blocked and earns nothing.
func (a *attribution) applyFraudRules(d *Decision, winner *signal) (reviews []string, why AttributionReason) {
	policy := winner.earner.FraudPolicy
	if winner.Type == ByAssignment || !policy.isEnabled() {
		return nil, ""
	}
	verdict := fraud.Evaluate(a.in.fraudFacts(winner), winner.earner.FraudSettings)
	a.trace.Fraud = verdict.Signals
	d.FraudAction = policy.actionForScore(verdict.Score)
	harmless := d.FraudAction == "" || d.FraudAction == FraudObserved
	a.check("fraud.score", harmless, fmt.Sprintf("score %d, policy %s", verdict.Score, policy))
	switch {
	case d.FraudAction == FraudBlocked && verdict.SelfReferral:
		return nil, WhySelfReferralBlocked
	case d.FraudAction == FraudBlocked:
		return nil, WhyFraudBlocked
	case d.FraudAction == FraudFlagged:
		reviews = append(reviews, ReviewFraud)
	}
	if verdict.NeedsReview && policy != FraudObserve {
		reviews = append(reviews, ReviewRefundRate)
	}
	return reviews, ""
}

// fraudFacts returns the facts about the participant of the winning signal, including
// the facts that the signal itself contains.
func (in AttributionInputs) fraudFacts(winner *signal) fraud.Facts {
	facts := in.FraudFacts[winner.earner.Participant]
	facts.PromoCodeOnly = winner.Type == ByPromoCode && in.Click == nil
	if winner.Type == ByClick {
		traits := in.FoundClick.Traits
		facts.Click = &fraud.Click{
			TimeToEvent: in.OccurredAt.Sub(in.FoundClick.ReceivedAt), ClicksInHour: in.FoundClick.ClicksFromAddress,
			Bot: traits.Bot, Country: traits.Country, PaidPlatform: traits.PaidPlatform, Referrer: traits.Referrer,
			Source: traits.UTM.Source, Medium: traits.UTM.Medium, Term: traits.UTM.Term,
		}
	}
	return facts
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
	return refuseStatus(ReasonFraudEventResolved, s)
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

// FraudDetectedEvent returns the webhook event for a conversion that the fraud rules
// suspect.
func (c Conversion) FraudDetectedEvent(d Decision) Event {
	return NewEvent(c.Scope, EventConversionFraudDetected, d.DecidedAt, fraudObject{
		ID: c.ID, FraudEvent: FraudEventID(d.ID), Program: d.Program, Participant: d.Participant,
		ExternalTransactionID: c.ExternalTransactionID, Score: FraudScore(d.Fraud), Signals: d.Fraud, Action: d.FraudAction, Version: c.Version,
	}, nil)
}

// fraudObject is the object of conversion.fraud_detected.
type fraudObject struct {
	ID                    ConversionID   `json:"id"` // id of the conversion
	FraudEvent            FraudEventID   `json:"fraud_event_id"`
	Program               *ProgramID     `json:"program_id"`              // null if the conversion is not credited to a participant
	Participant           *ParticipantID `json:"participant_id"`          // null if the conversion is not credited to a participant
	ExternalTransactionID string         `json:"external_transaction_id"` // as the merchant reported it
	Score                 int            `json:"score"`                   // sum of the scores of all signals, 0 to 100
	Signals               []FraudSignal  `json:"signals"`                 // the rules that fired, highest score first
	Action                FraudAction    `json:"action"`                  // observed: only recorded; flagged: the commission needs review; blocked: the conversion earns nothing
	Version               int            `json:"version"`                 // version of the conversion
}
