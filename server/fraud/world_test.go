package fraud_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/fraud"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// world is a workspace with a programme, a participant, and the service on a real
// database.
type world struct {
	*pgtest.Fixture
	service *fraud.Service
	scope   affiliate.Scope
	program affiliate.ProgramID
	pat     pgtest.Participant
	user    affiliate.UserID
	tick    atomic.Int64 // milliseconds since start; each call of now adds one
}

var start = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{}
	w.Fixture = pgtest.Open(t, w.now)
	w.service = fraud.New(w.Store, w.now)
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}
	w.program = w.NewProgram(w.scope, pgtest.Row{"name": "Spring"})
	w.pat = w.NewParticipant(w.scope, w.program, w.NewPartner("Pat"))
	w.user = w.NewMerchant("Mara")
	return w
}

func (w *world) now() time.Time {
	return start.Add(time.Duration(w.tick.Add(1)) * time.Millisecond)
}

// callContext returns the context of a call by an owner of the scope's workspace.
func (w *world) callContext(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(context.Background(), server.Principal{
		Kind: server.MerchantToken, User: w.user, Workspace: scope.Workspace, Mode: scope.Mode, Role: affiliate.RoleOwner,
	})
}

// recordSuspiciousPurchase records a purchase of 100.00 EUR under the given fraud policy.
// The fraud rules report a signal because a bot made the click. With FraudBlock the buyer
// also has the partner's e-mail address, so that the score is high enough to block.
func (w *world) recordSuspiciousPurchase(participant pgtest.Participant, program affiliate.ProgramID, policy affiliate.FraudPolicy) (affiliate.Conversion, affiliate.Decision, *affiliate.Commission) {
	w.Helper()
	now := w.now()
	click := affiliate.NewID[affiliate.Click](now)
	rate := int64(3000)
	earner := affiliate.Earner{
		Program: program, ProgramName: "Spring", ProgramStatus: affiliate.ProgramActive, Currency: "EUR",
		Model: affiliate.LastClick, Precedence: affiliate.ClickFirst, WindowDays: 30, FraudPolicy: policy, PartnerEmail: "pat@corp.example",
		Rule: affiliate.RuleSnapshot{Version: 1, Rules: affiliate.Rules{
			Type: affiliate.Percentage, RateBps: &rate, NetBasis: affiliate.Gross, AutoApproval: true,
		}},
		Participant: participant.ID, Partner: participant.Partner, ParticipantStatus: affiliate.ParticipantApproved,
	}
	c := affiliate.Conversion{
		ID: affiliate.NewID[affiliate.Conversion](now), Scope: w.scope, ExternalTransactionID: fmt.Sprintf("order-%d", w.tick.Load()),
		EventType: affiliate.Purchase, Sale: affiliate.Sale{Paid: affiliate.Money{Cents: 10_000, Currency: "EUR"}},
		OccurredAt: now, CreatedAt: now, Source: affiliate.SourceAPI, Status: affiliate.ConversionRecorded, Click: &click, Version: 1,
		Buyer: affiliate.Buyer{HasAddress: func(string) bool { return policy == affiliate.FraudBlock }},
	}
	in := affiliate.AttributionInputs{
		Mode: w.scope.Mode, EventType: c.EventType, OccurredAt: now, Sale: c.Sale, Click: &click,
		FoundClick: &affiliate.FoundClick{
			Mode: w.scope.Mode, ReceivedAt: now.Add(-time.Hour), ExpiresAt: affiliate.WindowEnd(now, 30), Earner: earner,
			Traits: affiliate.ClickTraits{Bot: true},
		},
	}
	recorded, err := w.Store.RecordConversion(w.Context(), affiliate.Report{
		Conversion: c, Inputs: in,
		Decide: func(found affiliate.AttributionInputs) (affiliate.Decision, *affiliate.Commission, error) {
			d := affiliate.Attribute(found)
			d.ID, d.Conversion, d.DecidedAt = affiliate.NewID[affiliate.Decision](now), c.ID, now
			if d.Earns == nil {
				return d, nil, nil
			}
			commission := affiliate.NewCommission(affiliate.NewID[affiliate.Commission](now), c, d, now)
			return d, &commission, nil
		},
	})
	if err != nil {
		w.Fatal(err)
	}
	return c, recorded.Decision, recorded.Commission
}

// newFlaggedCommission records a suspicious purchase under the policy FraudFlag and
// returns the id of its fraud event and its commission.
func (w *world) newFlaggedCommission() (event string, commission affiliate.Commission) {
	w.Helper()
	_, d, created := w.recordSuspiciousPurchase(w.pat, w.program, affiliate.FraudFlag)
	return d.ID.String(), *created
}

func (w *world) resolve(event string, outcome affiliatev1.FraudEventStatus, note *string) (*affiliatev1.FraudEvent, error) {
	return w.service.ResolveFraudEvent(w.callContext(w.scope), &affiliatev1.ResolveFraudEventRequest{EventId: event, Outcome: outcome, Note: note})
}

func (w *world) commissionStatus(id affiliate.CommissionID) (status string, reasons []string) {
	w.Helper()
	if err := w.SQL.QueryRow(w.Context(), `select status, review_reasons from commissions where id = $1`, id).Scan(&status, &reasons); err != nil {
		w.Fatal(err)
	}
	return status, reasons
}

const (
	confirmed = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_CONFIRMED
	dismissed = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_DISMISSED
	open      = affiliatev1.FraudEventStatus_FRAUD_EVENT_STATUS_OPEN
)

func ptr[T any](v T) *T { return &v }
