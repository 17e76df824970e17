package attribution

import (
	"encoding/json"
	"math/big"
	"slices"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/program"
)

// DecisionRecord is a decision as the audit endpoints show it. A stored decision has an
// id and a conversion; a simulated one has neither.
type DecisionRecord struct {
	Decision
	// RuleJSON is the stored Trace.Rule; nil if nothing is earned. In old decisions, it can
	// have fields that no longer exist.
	RuleJSON json.RawMessage `db:"rule"`
	// CustomerRef is the customer reference of the conversion. It is not part of the
	// trace, because traces are kept when a buyer's data is erased.
	CustomerRef *string
	// ProgramName is the current name of the trace's programme. PartnerNames are the current
	// names of the candidates' partners, by the ids of the participants.
	ProgramName  *string
	PartnerNames map[string]*string
	// SupersededBy is the decision that replaced this one; nil if this one is in force.
	SupersededBy *affiliate.DecisionID
}

// SimulatedRecord returns the record of a decision that is not stored.
func SimulatedRecord(d Decision) (DecisionRecord, error) {
	record := DecisionRecord{Decision: d}
	if d.Trace.Rule == nil {
		return record, nil
	}
	var err error
	record.RuleJSON, err = json.Marshal(d.Trace.Rule)
	return record, err
}

// DecisionFilter restricts a list of decisions. A zero field matches every decision.
type DecisionFilter struct {
	Attributed *bool
	Reason     Reason
	// Program is the programme to which the deciding signal leads, even if the conversion is not attributed.
	Program    *affiliate.ProgramID
	Conversion *affiliate.ConversionID
	Decided    affiliate.Period
}

// ClickDetail is a click with the conversions whose reports named it, without visitor
// data.
type ClickDetail struct {
	click.Click // without hashes and address prefix
	// ConvertedAt is when the first attributed conversion of the click was reported; nil
	// without such a conversion.
	ConvertedAt *time.Time
	// ProgramName and PartnerName are the current names.
	ProgramName *string
	PartnerName *string
	// Conversions holds at most MaxClickConversions, oldest first.
	Conversions []ClickConversion `db:"-"`
}

// MaxClickConversions is the greatest number of conversions that are shown for a click.
const MaxClickConversions = 100

// ClickConversion is a conversion whose report named a click, with its decision in force.
type ClickConversion struct {
	ID                    affiliate.ConversionID
	ExternalTransactionID string
	Attributed            bool
	Reason                Reason               `db:"reason_code"`
	Decision              affiliate.DecisionID `db:"decision_id"`
	CreatedAt             time.Time
}

// Decision is the outcome of an attribution. It is never changed, only superseded.
type Decision struct {
	ID            affiliate.DecisionID
	Conversion    affiliate.ConversionID `db:"conversion_id"`
	Attributed    bool
	Method        *Method // nil when not attributed
	Reason        Reason  `db:"reason_code"`
	Explanation   string
	EngineVersion string
	DecidedAt     time.Time
	Supersedes    *affiliate.DecisionID

	// Program and Participant are set if the conversion is attributed. Click or PromoCode is
	// set if this signal attributed the conversion.
	Program     *affiliate.ProgramID     `db:"program_id"`
	Participant *affiliate.ParticipantID `db:"participant_id"`
	Click       *affiliate.ClickID       `db:"click_id"`
	PromoCode   *string                  `db:"-"`
	// Link is the link of the click. It is set together with Click.
	Link *affiliate.LinkID `db:"-"`
	// Redeems is the promo code whose number of redemptions this conversion increases
	// by one. A reported code that can be used is redeemed even if another signal wins.
	Redeems *affiliate.PromoCodeID `db:"-"`
	// RecurringIndex is the number of this payment among the customer's payments in the
	// programme, starting at 1. It is nil without a customer or a payment.
	RecurringIndex *int `db:"-"`
	// DecidedBy is the member or service token that assigned the conversion.
	DecidedBy *affiliate.ActorID
	// ClickedAt and ExpiresAt are the time and the window end of the click that Reason
	// refers to. They are nil if Reason does not refer to a known click.
	ClickedAt *time.Time
	ExpiresAt *time.Time
	// Earning is set if the conversion earns a commission.
	Earning *Earning `db:"-"`
	// FraudAction is the action of the fraud policy; empty without a suspicion.
	FraudAction fraud.Action `db:"-"`

	Trace Trace
}

// Earning says who earns a commission and how its amount is computed.
type Earning struct {
	Earner      Earner
	Calculation Calculation
}

// Trace records how a decision was made. It contains nothing that identifies the buyer,
// because decisions are kept when a buyer's data is erased.
type Trace struct {
	Inputs TraceInputs `json:"inputs"`
	// Program is the programme that the deciding signal leads to. The deciding signal is
	// the signal that won or, if none won, the first reported signal.
	Program     *TraceProgram  `json:"program"`
	Candidates  []Candidate    `json:"candidates"`
	Steps       []Step         `json:"steps"`
	Rule        *RuleSnapshot  `json:"rule"`        // set when a commission is earned
	Calculation *Calculation   `json:"calculation"` // set when a commission is earned
	Fraud       []fraud.Signal `json:"fraud"`       // the fraud rules that fired
}

// TraceInputs holds the inputs as they were reported.
type TraceInputs struct {
	Mode          affiliate.Mode      `json:"mode"`
	EventType     affiliate.EventType `json:"event_type"`
	OccurredAt    time.Time           `json:"occurred_at"`
	AmountCents   int64               `json:"amount_cents"`
	Currency      *string             `json:"currency"`
	TaxCents      int64               `json:"tax_cents"`
	ShippingCents int64               `json:"shipping_cents"`
	FeeCents      int64               `json:"fee_cents"`
	Click         *affiliate.ClickID  `json:"click_id"`
	PromoCode     *string             `json:"promo_code"`
}

// TraceProgram holds the programme's settings that influenced the decision.
type TraceProgram struct {
	ID affiliate.ProgramID `json:"id"`
	// WindowDays is the window of the deciding click, or the programme's window if no click
	// decided.
	WindowDays int `json:"window_days"`
	// Model decides whether a customer's binding, if there is one, outranks a later
	// click.
	Model      program.AttributionModel `json:"model"`
	Precedence program.SignalPrecedence `json:"precedence"`
}

// Candidate is a signal of the conversion with the result of its checks. For a
// customer's binding, At is the time of the binding, and ExpiresAt is the last instant
// at which the binding outranks a later click under FirstClick.
type Candidate struct {
	Type            Method                   `json:"type"`
	Click           *affiliate.ClickID       `json:"click_id,omitempty"`
	PromoCode       *string                  `json:"promo_code,omitempty"`
	Participant     *affiliate.ParticipantID `json:"participant_id"`
	At              *time.Time               `json:"at"`
	ExpiresAt       *time.Time               `json:"expires_at"`
	Eligible        bool                     `json:"eligible"`
	RejectedBecause *Reason                  `json:"rejected_because"`
}

// Outranked reports whether the signal could be used, but another signal comes before it.
func (c Candidate) Outranked() bool {
	return c.RejectedBecause != nil && *c.RejectedBecause == whyOutranked
}

// Step is one check. Order is its position in the sequence of checks.
type Step struct {
	Order   int         `json:"order"`
	Check   string      `json:"check"`
	Outcome StepOutcome `json:"outcome"`
	Detail  string      `json:"detail"`
}

// StepOutcome says whether a check passed.
type StepOutcome string

// Calculation records how an amount was computed, so that a person can repeat the
// computation. A percentage is base times rate, converted if the sale is in another
// currency than the programme, and rounded once. The caps are applied last.
type Calculation struct {
	BaseAmountCents int64            `json:"base_amount_cents"`
	BaseCurrency    string           `json:"base_currency"`
	NetBasis        program.NetBasis `json:"net_basis"`
	// Source says which setting the rate comes from.
	Source RateSource `json:"source"`
	// RateBps is set for a percentage, and FlatCents for a flat amount. They are never
	// both set. If the Parts have different rates, RateBps is the rounded effective
	// rate, and the amount was computed from the rates of the Parts.
	RateBps   *int64 `json:"rate_bps"`
	FlatCents *int64 `json:"flat_amount_cents"`
	// Parts holds the lines of the order if rates of products were used.
	Parts []CalculationPart `json:"parts,omitempty"`
	// PriorTotals holds the earlier totals of the participant, if the rules have tiers.
	PriorTotals *PriorTotals `json:"brought,omitempty"`
	// FXRate is the factor that converts the base to the programme's currency, in major
	// units. FXDate is the day of that rate, YYYY-MM-DD. Both are nil if the currencies
	// are the same or no rate is known.
	FXRate   *string `json:"fx_rate"`
	FXDate   *string `json:"fx_date"`
	Rounding string  `json:"rounding"`
	// CappedAtOrderCap says that the amount was lowered to the maximum for one order. CappedAtBase
	// says that the amount was still higher than the base, and was lowered to the base.
	CappedAtOrderCap bool     `json:"capped_at_order_cap"`
	CappedAtBase     bool     `json:"capped_at_base"`
	AmountCents      int64    `json:"amount_cents"`
	Currency         string   `json:"currency"`
	ReviewReasons    []string `json:"review_reasons"`
}

// CalculationPart is a line of an order with its rate. The base is divided between the
// lines in proportion to their amounts, or equally if all amounts are zero.
type CalculationPart struct {
	ProductID   string `json:"product_id"`
	AmountCents int64  `json:"amount_cents"` // of the whole line, as reported
	Quantity    int64  `json:"quantity"`
	RateBps     *int64 `json:"rate_bps"`
	// FlatCents is paid for each unit if Source is FromProduct. A flat amount from any
	// other source is paid once for all lines that have it.
	FlatCents *int64     `json:"flat_amount_cents"`
	Source    RateSource `json:"source"`
	// LeftOut says that this part is not included in the amount. It pays a flat amount
	// in the programme's currency, which cannot be added to percentages of a sale in
	// another currency when no exchange rate is known.
	LeftOut bool `json:"left_out,omitempty"`
}

// Type returns Percentage or Flat, according to the rate that was used.
func (c *Calculation) Type() program.CommissionType {
	if c.RateBps != nil {
		return program.Percentage
	}
	return program.Flat
}

// convertBase returns the base in the given currency and stores the rate in c, or the base as it is without a rate.
func (c *Calculation) convertBase(in Inputs, currency string) convertedBase {
	own := affiliate.Money{Cents: c.BaseAmountCents, Currency: c.BaseCurrency}
	base, ok := in.convert(own, currency)
	if own.Currency == "" || own.Currency == currency || !ok {
		return convertedBase{cents: own.Cents, currency: own.Currency}
	}
	rate := in.Rates[currency]
	date := rate.Date.Format(time.DateOnly)
	c.FXRate, c.FXDate = &rate.Rate, &date
	return convertedBase{cents: base, currency: currency, rate: &rate}
}

// shareOfBase returns base × numerator ÷ denominator, converted to the currency of s and
// rounded once. The result is at most the base, because numerator ≤ denominator.
func (c *Calculation) shareOfBase(numerator, denominator int64, s convertedBase) int64 {
	if s.rate == nil {
		return affiliate.MustMulDiv(c.BaseAmountCents, numerator, denominator)
	}
	exact := new(big.Rat).SetInt64(c.BaseAmountCents)
	cents, _ := s.rate.Convert(exact.Mul(exact, big.NewRat(numerator, denominator)))
	return cents
}

// pay applies one rate to the whole base.
func (c *Calculation) pay(rate sourcedRate, programCurrency string, s convertedBase) {
	c.Source = rate.source
	if rate.flat() {
		c.FlatCents, c.Currency, c.AmountCents = rate.FlatCents, programCurrency, *rate.FlatCents
		return
	}
	bps := affiliate.OrZero(rate.Bps)
	c.RateBps, c.Currency, c.AmountCents = &bps, s.percentageCurrency(programCurrency), c.shareOfBase(bps, affiliate.WholeBps, s)
}

// payLines applies each line's rate to its part of the base:
//
//	base × Σ (line amount × rate) ÷ Σ line amounts, converted and rounded once
//	+ the flat amounts
//
// A report has at most 100 lines of at most MaxAmountCents, so the sums fit into 64 bits.
func (c *Calculation) payLines(lines []pricedLine, programCurrency string, s convertedBase) {
	allZero := !slices.ContainsFunc(lines, func(l pricedLine) bool { return l.AmountCents > 0 })
	var weighted, totalWeight, flatTotal int64
	orderFlatPaid, hasPercentage := false, false
	c.Source = lines[0].rate.source
	for _, line := range lines {
		if line.rate.source != c.Source {
			c.Source = FromMixed
		}
		weight := line.AmountCents
		if allZero {
			weight = 1
		}
		totalWeight += weight
		switch {
		case !line.rate.flat():
			weighted += weight * affiliate.OrZero(line.rate.Bps)
			hasPercentage = true
		case line.rate.source == FromProduct:
			flatTotal = addFlat(flatTotal, *line.rate.FlatCents, line.Quantity)
		case !orderFlatPaid:
			flatTotal, orderFlatPaid = addFlat(flatTotal, *line.rate.FlatCents, 1), true
		}
	}
	if hasPercentage {
		c.Currency = s.percentageCurrency(programCurrency)
	} else {
		c.Currency, c.FlatCents = programCurrency, &flatTotal
	}
	excludesFlat := c.Currency != programCurrency
	for _, line := range lines {
		c.Parts = append(c.Parts, CalculationPart{
			ProductID: line.ProductID, AmountCents: line.AmountCents, Quantity: line.Quantity,
			RateBps: line.rate.Bps, FlatCents: line.rate.FlatCents, Source: line.rate.source,
			LeftOut: excludesFlat && line.rate.flat(),
		})
	}
	if !excludesFlat {
		c.AmountCents = flatTotal
	}
	if hasPercentage {
		c.AmountCents += c.shareOfBase(weighted, totalWeight*affiliate.WholeBps, s)
		bps := c.effectiveBps(lines, s)
		c.RateBps = &bps
	}
}

// effectiveBps returns the rate of the lines if all lines have the same rate. Otherwise
// it returns the quotient of the amount and the base, in basis points. The quotient is
// limited to WholeBps, and it is 0 if the base is 0.
func (c *Calculation) effectiveBps(lines []pricedLine, s convertedBase) int64 {
	first := lines[0].rate.Rate
	switch {
	case !slices.ContainsFunc(lines, func(l pricedLine) bool { return !sameRate(l.rate.Rate, first) }):
		return affiliate.OrZero(first.Bps)
	case s.cents == 0:
		return 0
	}
	return affiliate.MustMulDiv(min(c.AmountCents, s.cents), affiliate.WholeBps, s.cents)
}

// The outcomes of steps.
const (
	StepPassed StepOutcome = "passed"
	StepFailed StepOutcome = "failed"
)
