package affiliate

import (
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/tributary-hq/tributary/affiliate/fraud"
)

// FraudSignal is a fraud rule that fired.
type FraudSignal = fraud.Signal

// FraudAction is what was done about a conversion that the fraud rules suspect.
type FraudAction string

// The actions.
const (
	// FraudObserved: it was noted, and nothing else.
	FraudObserved FraudAction = "observed"
	// FraudFlagged: the commission needs review.
	FraudFlagged FraudAction = "flagged"
	// FraudBlocked: nothing is earned.
	FraudBlocked FraudAction = "blocked"
)

// Why a commission needs review. RejectedForFraud is the rejection code of one
// that a person found fraudulent.
const (
	ReviewFraud      = "fraud"
	ReviewRefundRate = "refund_rate"
	RejectedForFraud = "fraud"
)

// judges reports whether the rules are asked at all.
func (p FraudPolicy) judges() bool { return p != "" && p != FraudOff }

// actionOn is what the policy does about a score; empty below suspicion. Only
// what is beyond doubt is blocked.
func (p FraudPolicy) actionOn(score int) FraudAction {
	switch {
	case score < fraud.Suspicious:
		return ""
	case p == FraudObserve:
		return FraudObserved
	case p == FraudBlock && score >= fraud.MaxScore:
		return FraudBlocked
	}
	return FraudFlagged
}

// Buyer is what is known of who bought while a decision is made. Of it only what
// the conversion has as hashes is stored.
type Buyer struct {
	// HasAddress reports whether an e-mail address is the buyer's mailbox; nil: the
	// buyer's is unknown.
	HasAddress func(email string) bool
	// IPPrefix is the /24 or /48 of the buyer's address; empty: unknown.
	IPPrefix string
	// AgentHashes are AgentHash of the buyer's browser under the keys of some months.
	AgentHashes [][]byte
}

// ClickTraits is what fraud rules look at of a click. Hashes are under the keys of
// the click's month.
type ClickTraits struct {
	IPHash   []byte
	IPPrefix string
	UAHash   []byte
	Bot      bool
	// Country is ISO 3166-1 alpha-2; empty: unknown.
	Country string
	// PaidPlatform is as in Click.
	PaidPlatform string
	Referrer     string // domain
	UTM          UTM
}

// Traits are what fraud rules look at of c.
func (c Click) Traits() ClickTraits {
	return ClickTraits{
		IPHash: c.IPHash, IPPrefix: c.IPPrefix, UAHash: c.UAHash, Bot: c.IsBot,
		Country: c.Country, PaidPlatform: c.PaidPlatform, Referrer: c.ReferrerDomain, UTM: c.UTM,
	}
}

// Origin is from where a partner used its account: never a whole address, the
// agent as AgentHash, nil without one.
type Origin struct {
	User      UserID
	IPPrefix  string
	AgentHash []byte
	SeenAt    time.Time
}

// OriginsKept is how long they are.
const OriginsKept = fraud.DeviceWindow

// agentHashSize is in bytes.
const agentHashSize = 16

// AgentHash stands for a user agent within a calendar month (UTC), under a key of
// that month which is made of the deployment's. The collector's are the same, so
// that partners, buyers and clicks can be compared with each other.
func AgentHash(key []byte, agent string, at time.Time) []byte {
	derive := hmac.New(sha256.New, key)
	derive.Write([]byte("clicks " + at.UTC().Format("2006-01")))
	mac := hmac.New(sha256.New, derive.Sum(nil))
	mac.Write([]byte("ua\x00" + agent))
	return mac.Sum(nil)[:agentHashSize]
}

// MayEarn are those to whom a signal leads and of whom fraud rules will want to
// know something: each once.
func (in AttributionInputs) MayEarn() []Earner {
	var candidates []Earner
	seen := map[ParticipantID]bool{}
	for _, earner := range []*Earner{in.clickEarner(), in.promoCodeEarner(), in.bindingEarner()} {
		if earner == nil || seen[earner.Participant] || !earner.FraudPolicy.judges() ||
			earner.ProgramStatus != ProgramActive || earner.ParticipantStatus != ParticipantApproved || earner.ParticipantErased {
			continue
		}
		seen[earner.Participant] = true
		candidates = append(candidates, *earner)
	}
	return candidates
}

// judgeFraud asks the fraud rules about the winner. reviews are why the
// commission needs review, why is set when nothing is earned.
func (a *attribution) judgeFraud(d *Decision, winner *signal) (reviews []string, why AttributionReason) {
	policy := winner.earner.FraudPolicy
	if winner.Type == ByHand || !policy.judges() {
		return nil, ""
	}
	verdict := fraud.Judge(a.in.fraudFacts(winner), winner.earner.FraudSettings)
	a.trace.Fraud = verdict.Signals
	d.FraudAction = policy.actionOn(verdict.Score)
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
	if verdict.AsksForReview && policy != FraudObserve {
		reviews = append(reviews, ReviewRefundRate)
	}
	return reviews, ""
}

// fraudFacts are what was learned about the winner, and what its signal says.
func (in AttributionInputs) fraudFacts(winner *signal) fraud.Facts {
	facts := in.FraudFacts[winner.earner.Participant]
	facts.PromoCodeOnly = winner.Type == ByPromoCode && in.Click == nil
	if winner.Type == ByClick {
		traits := in.FoundClick.Traits
		facts.Click = &fraud.Click{
			ToEvent: in.OccurredAt.Sub(in.FoundClick.ReceivedAt), InHour: in.FoundClick.FromAddress,
			Bot: traits.Bot, Country: traits.Country, PaidPlatform: traits.PaidPlatform, Referrer: traits.Referrer,
			Source: traits.UTM.Source, Medium: traits.UTM.Medium, Term: traits.UTM.Term,
		}
	}
	return facts
}

// FraudEventID identifies a fraud event.
type FraudEventID = ID[FraudEvent]

// FraudEventStatus is whether a person has looked at a fraud event, and what
// they found.
type FraudEventStatus string

// The statuses. Only an open one can be resolved.
const (
	FraudEventOpen      FraudEventStatus = "open"
	FraudEventConfirmed FraudEventStatus = "confirmed"
	FraudEventDismissed FraudEventStatus = "dismissed"
)

// CheckOpen refuses to resolve a fraud event that was resolved before.
func (s FraudEventStatus) CheckOpen() error {
	if s == FraudEventOpen {
		return nil
	}
	return refuseStatus(ReasonFraudEventResolved, s)
}

// FraudEvent is a conversion that the fraud rules suspect. A decision makes at
// most one, which has the decision's id.
type FraudEvent struct {
	ID                    FraudEventID
	Scope                 Scope
	Program               ProgramID
	ProgramName           string
	Participant           ParticipantID
	PartnerName           string
	Conversion            ConversionID
	ExternalTransactionID string
	Commission            *CommissionID // nil: nothing was earned
	Score                 int           // 0 to 100
	Signals               []FraudSignal
	Action                FraudAction
	Status                FraudEventStatus
	Note                  *string
	ResolvedBy            *UserID
	ResolvedAt            *time.Time
	CreatedAt             time.Time
}

// FraudEventFilter narrows a list of fraud events; zero values do not.
type FraudEventFilter struct {
	Status      FraudEventStatus
	Program     *ProgramID
	Participant *ParticipantID
	Created     Period
}

// FraudResolution is what a person found.
type FraudResolution struct {
	Scope   Scope
	Event   FraudEventID
	Outcome FraudEventStatus // confirmed or dismissed
	Note    *string
	By      Actor
	At      time.Time
}

// ProgramFraudPolicy is how a programme wants fraud to be judged.
type ProgramFraudPolicy struct {
	Program   ProgramID
	Policy    FraudPolicy
	Settings  FraudSettings
	UpdatedAt time.Time
}

// FraudScore is what signals come to together.
func FraudScore(signals []FraudSignal) int {
	score := 0
	for _, s := range signals {
		score += s.Score
	}
	return min(score, fraud.MaxScore)
}

// FraudDetected tells the world about a suspicion of a decision.
func (c Conversion) FraudDetected(d Decision) Event {
	return NewEvent(c.Scope, EventConversionFraudDetected, d.DecidedAt, fraudObject{
		ID: c.ID, FraudEvent: FraudEventID(d.ID), Program: d.Program, Participant: d.Participant,
		ExternalTransactionID: c.ExternalTransactionID, Score: FraudScore(d.Fraud), Signals: d.Fraud, Action: d.FraudAction, Version: c.Version,
	}, nil)
}

// fraudObject is the object of conversion.fraud_detected.
type fraudObject struct {
	ID                    ConversionID   `json:"id"` // the conversion's
	FraudEvent            FraudEventID   `json:"fraud_event_id"`
	Program               *ProgramID     `json:"program_id"`              // null when it is credited to nobody
	Participant           *ParticipantID `json:"participant_id"`          // null when it is credited to nobody
	ExternalTransactionID string         `json:"external_transaction_id"` // as the merchant reported it
	Score                 int            `json:"score"`                   // 0 to 100, of all signals together
	Signals               []FraudSignal  `json:"signals"`                 // the rules that fired, highest score first
	Action                FraudAction    `json:"action"`                  // what was done: noted, flagged for review, or blocked so that it earns nothing
	Version               int            `json:"version"`                 // the conversion's
}
