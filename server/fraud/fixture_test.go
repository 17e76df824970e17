package fraud_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/fraud"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const (
	confirmed = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_CONFIRMED
	dismissed = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_DISMISSED
	open      = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_OPEN
)

// fixture is a shop with a participant and the service under test.
type fixture struct {
	*pgtest.Shop
	service *fraud.Service
	clock   *pgtest.Clock
	pat     pgtest.Participant
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, pgtest.Row{"name": "Spring"})
	return &fixture{shop, fraud.New(shop.Store, clock.Now), clock, shop.Join("Pat")}
}

// asOwner returns the context of a call by the owner of a shop.
func asOwner(shop *pgtest.Shop) context.Context {
	return servertest.AsMember(shop, shop.Scope, shop.Owner, affiliate.RoleOwner)
}

var (
	botClick    = affiliate.FraudSignal{Rule: "bot_click", Score: 70, Evidence: "The click is from a bot."}
	sameAddress = affiliate.FraudSignal{Rule: "self_referral_email", Score: 100, Evidence: "The buyer has the partner's e-mail address."}
)

// suspectedSale is a purchase of 10.00 EUR with fraud signals.
type suspectedSale struct {
	event      string // id of the fraud event
	conversion affiliate.Conversion
	commission *affiliate.Commission // nil if the conversion is blocked
}

// newSuspectedSale records a purchase with the fraud signal botClick, one second after
// the previous purchase. action is what the fraud policy did. A blocked purchase also has
// the signal sameAddress and no commission.
func (f *fixture) newSuspectedSale(p pgtest.Participant, action affiliate.FraudAction) suspectedSale {
	f.Helper()
	f.clock.Advance(time.Second)
	now, rate, method := f.Now(), int64(2000), affiliate.ByClick
	id := affiliate.NewID[affiliate.ConversionID](now)
	sale := affiliate.Conversion{
		ID: id, Scope: p.Scope, ExternalTransactionID: id.String(), EventType: affiliate.Purchase,
		Sale:       affiliate.Sale{Paid: affiliate.Money{Cents: 1000, Currency: "EUR"}},
		OccurredAt: now, CreatedAt: now, Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded, Version: 1,
	}
	decision := affiliate.Decision{
		ID: affiliate.NewID[affiliate.DecisionID](now), Conversion: id, Attributed: true, Method: &method, Reason: affiliate.WhyClickMatched,
		Explanation: "A click.", EngineVersion: affiliate.EngineVersion, Program: &p.Program, Participant: &p.ID, ClickedAt: &now, DecidedAt: now,
		FraudAction: action, Trace: affiliate.Trace{Fraud: []affiliate.FraudSignal{botClick}},
	}
	commission := &affiliate.Commission{
		ID: affiliate.NewID[affiliate.CommissionID](now), Scope: p.Scope, Program: p.Program, Participant: p.ID, Partner: p.Partner,
		Conversion: id, Decision: decision.ID, ExternalTransactionID: sale.ExternalTransactionID, Status: affiliate.CommissionPending,
		Type: affiliate.Percentage, EventType: sale.EventType, RateBps: &rate, AmountCents: 200, OriginalAmountCents: 200, Currency: "EUR",
		BaseAmountCents: 1000, SaleAmountCents: 1000, SaleCurrency: "EUR", ReviewReasons: []string{}, Dispute: affiliate.DisputeNone,
		Rule: affiliate.RuleSnapshot{Version: 1, Rules: affiliate.DefaultRules()}, AutoApproveAt: &now, Version: 1, CreatedAt: now, UpdatedAt: now,
	}
	switch action {
	case affiliate.FraudFlagged:
		commission.NeedsReview, commission.ReviewReasons = true, []string{affiliate.ReviewFraud}
	case affiliate.FraudBlocked:
		decision.Reason, commission = affiliate.WhySelfReferralBlocked, nil
		decision.Fraud = []affiliate.FraudSignal{sameAddress, botClick}
	case affiliate.FraudObserved:
	}
	_, err := f.Store.RecordConversion(f.Context(), affiliate.Report{
		Conversion: sale,
		Inputs:     affiliate.AttributionInputs{Mode: sale.Scope.Mode, EventType: sale.EventType, OccurredAt: now, Sale: sale.Sale},
		Decide: func(affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
			return decision, commission, nil
		},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.clock.Advance(time.Millisecond)
	return suspectedSale{decision.ID.String(), sale, commission}
}

// resolve resolves a fraud event as the shop's owner. If note is empty, the request has
// no note.
func (f *fixture) resolve(event string, outcome affiliatev1.FraudEventStatus, note string) (*affiliatev1.FraudEvent, error) {
	req := &affiliatev1.ResolveFraudEventRequest{EventId: event, Outcome: outcome}
	if note != "" {
		req.Note = &note
	}
	return f.service.ResolveFraudEvent(asOwner(f.Shop), req)
}

// listEventIDs returns the ids on a page of the shop's fraud events, and the number of
// events on all pages.
func (f *fixture) listEventIDs(req *affiliatev1.ListFraudEventsRequest) (ids []string, total int64) {
	f.Helper()
	page, err := f.service.ListFraudEvents(asOwner(f.Shop), req)
	if err != nil {
		f.Fatalf("ListFraudEvents with %v: %v", req, err)
	}
	for _, event := range page.GetData() {
		ids = append(ids, event.GetId())
	}
	return ids, page.GetTotal()
}

// getCommission returns a commission as the store has it.
func (f *fixture) getCommission(id affiliate.CommissionID) affiliate.Commission {
	f.Helper()
	detail, err := f.Store.Commission(f.Context(), f.Scope, f.Program, id)
	if err != nil {
		f.Fatal(err)
	}
	return detail.Commission
}
