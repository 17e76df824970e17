package fraud_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestListFraudEvents(t *testing.T) {
	f := newFixture(t)
	flagged := f.newSuspectedSale(f.pat, fraud.Flagged)
	blocked := f.newSuspectedSale(f.pat, fraud.Blocked)
	autumn := f.NewProgram(f.Scope, pgtest.Row{"name": "Autumn"})
	sam := f.NewParticipant(f.Scope, autumn, f.NewPartner("Sam"))
	observed := f.newSuspectedSale(sam, fraud.Observed)
	if _, err := f.resolve(flagged.event, dismissed, "Known customer"); err != nil {
		t.Fatal(err)
	}
	resolvedAt := server.Timestamp(f.Now())

	// eventOf returns an open event with one signal.
	eventOf := func(s suspectedSale, p pgtest.Participant, partner, program string) *affiliatev1.FraudEvent {
		event := &affiliatev1.FraudEvent{
			Id: s.event, Mode: affiliatev1.Mode_MODE_LIVE, ProgramId: p.Program.String(), ProgramName: program, ParticipantId: p.ID.String(),
			PartnerName: partner, ConversionId: s.conversion.ID.String(), ExternalTransactionId: s.conversion.ExternalTransactionID,
			Score: 70, Signals: []*affiliatev1.FraudEventSignal{{Rule: botClick.Rule, Score: 70, Evidence: botClick.Evidence}},
			Status: open, CreatedAt: server.Timestamp(s.conversion.CreatedAt),
		}
		if s.commission != nil {
			event.CommissionId = new(s.commission.ID.String())
		}
		return event
	}
	newest := eventOf(observed, sam, "Sam", "Autumn")
	newest.Action = affiliatev1.FraudAction_FRAUD_ACTION_OBSERVED
	second := eventOf(blocked, f.pat, "Pat", "Spring")
	second.Action, second.Score = affiliatev1.FraudAction_FRAUD_ACTION_BLOCKED, 100
	second.Signals = append([]*affiliatev1.FraudEventSignal{
		{Rule: sameAddress.Rule, Score: 100, Evidence: sameAddress.Evidence},
	}, second.Signals...)
	oldest := eventOf(flagged, f.pat, "Pat", "Spring")
	oldest.Action, oldest.Status = affiliatev1.FraudAction_FRAUD_ACTION_FLAGGED, dismissed
	oldest.Note, oldest.ResolvedBy, oldest.ResolvedAt = new("Known customer"), new(f.Owner.String()), resolvedAt
	oldest.ResolvedByName = new(f.Texts(`select name from users where id = $1`, f.Owner)[0])
	want := &affiliatev1.ListFraudEventsResponse{Data: []*affiliatev1.FraudEvent{newest, second, oldest}, Total: 3, Page: 1, Limit: 20}
	if got, err := f.service.ListFraudEvents(asOwner(f.Shop), &affiliatev1.ListFraudEventsRequest{}); err != nil || !proto.Equal(got, want) {
		t.Errorf("ListFraudEvents returned %v, error %v\nwant %v", got, err, want)
	}

	for name, tc := range map[string]struct {
		req   *affiliatev1.ListFraudEventsRequest
		want  []string
		total int64
	}{
		"open":                  {&affiliatev1.ListFraudEventsRequest{Status: open}, []string{observed.event, blocked.event}, 2},
		"dismissed":             {&affiliatev1.ListFraudEventsRequest{Status: dismissed}, []string{flagged.event}, 1},
		"confirmed":             {&affiliatev1.ListFraudEventsRequest{Status: confirmed}, nil, 0},
		"one programme":         {&affiliatev1.ListFraudEventsRequest{ProgramId: new(f.Program.String())}, []string{blocked.event, flagged.event}, 2},
		"one participant":       {&affiliatev1.ListFraudEventsRequest{ParticipantId: new(sam.ID.String())}, []string{observed.event}, 1},
		"open in one programme": {&affiliatev1.ListFraudEventsRequest{ProgramId: new(f.Program.String()), Status: open}, []string{blocked.event}, 1},
		"second page":           {&affiliatev1.ListFraudEventsRequest{Page: new(int32(2)), PageSize: new(int32(2))}, []string{flagged.event}, 3},
		"after the last page":   {&affiliatev1.ListFraudEventsRequest{Page: new(int32(9))}, nil, 3},
	} {
		if got, total := f.listEventIDs(tc.req); !slices.Equal(got, tc.want) || total != tc.total {
			t.Errorf("%s: ListFraudEvents returned %q, total %d, want %q, total %d", name, got, total, tc.want, tc.total)
		}
	}
}

func TestFraudEvents_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	event := f.newSuspectedSale(f.pat, fraud.Flagged).event
	for name, other := range map[string]*pgtest.Shop{"another workspace": f.NewShop(affiliate.ModeLive), "the other mode": f.InOtherMode()} {
		t.Run(name, func(t *testing.T) {
			ctx := asOwner(other)
			_, err := f.service.ListFraudEvents(ctx, &affiliatev1.ListFraudEventsRequest{ProgramId: new(f.Program.String())})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			page, err := f.service.ListFraudEvents(ctx, &affiliatev1.ListFraudEventsRequest{})
			if err != nil || len(page.GetData()) != 0 || page.GetTotal() != 0 {
				t.Errorf("ListFraudEvents returned %v, error %v, want no events", page, err)
			}
			_, err = f.service.GetFraudEvent(ctx, &affiliatev1.GetFraudEventRequest{EventId: event})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.BulkResolveFraudEvents(ctx, &affiliatev1.BulkResolveFraudEventsRequest{EventIds: []string{event}, Outcome: confirmed})
			if err == nil || err.Error() != string(affiliate.ReasonBulkAllFailed) {
				t.Errorf("BulkResolveFraudEvents returned %v, want BULK_ALL_FAILED", err)
			}
			_, err = f.service.ResolveFraudEvent(ctx, &affiliatev1.ResolveFraudEventRequest{EventId: event, Outcome: confirmed})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
		})
	}
	_, err := f.resolve("invalid", confirmed, "")
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	if ids, total := f.listEventIDs(&affiliatev1.ListFraudEventsRequest{Status: open}); total != 1 {
		t.Errorf("after refused calls the open events are %q, total %d, want 1", ids, total)
	}
}

func TestBulkResolveFraudEvents(t *testing.T) {
	f := newFixture(t)
	first, second, closed := f.newSuspectedSale(f.pat, fraud.Flagged), f.newSuspectedSale(f.pat, fraud.Flagged), f.newSuspectedSale(f.pat, fraud.Blocked)
	if _, err := f.resolve(closed.event, dismissed, ""); err != nil {
		t.Fatal(err)
	}
	got, err := f.service.BulkResolveFraudEvents(asOwner(f.Shop), &affiliatev1.BulkResolveFraudEventsRequest{
		EventIds: []string{first.event, closed.event, second.event, first.event}, Outcome: confirmed, Note: new("Same address"),
	})
	if err != nil || got.GetSummary().GetTotal() != 3 || got.GetSummary().GetSucceeded() != 2 {
		t.Fatalf("BulkResolveFraudEvents returned %v, error %v, want two of three events resolved", got, err)
	}
	if failed := got.Results[1]; failed.GetEventId() != closed.event || failed.GetStatus() != dismissed || failed.GetCode() != string(affiliate.ReasonFraudEventResolved) {
		t.Errorf("the second result is %v, want FRAUD_EVENT_RESOLVED", failed)
	}
	for _, sale := range []suspectedSale{first, second} {
		event, err := f.service.GetFraudEvent(asOwner(f.Shop), &affiliatev1.GetFraudEventRequest{EventId: sale.event})
		if err != nil || event.GetStatus() != confirmed || event.GetNote() != "Same address" || event.ResolvedByName == nil {
			t.Errorf("GetFraudEvent returned %v, error %v, want a confirmed event with note and name", event, err)
		}
		if c := f.getCommission(sale.commission.ID); c.Status != commission.Rejected {
			t.Errorf("the commission is %s, want rejected", c.Status)
		}
	}
}

func TestResolveFraudEvent(t *testing.T) {
	type transitions = []commission.Transition
	flagSuspended := commission.Transition{Move: commission.MoveFlag, ReviewReasons: []string{"participant_suspended"}}
	for name, tc := range map[string]struct {
		before      transitions // of the commission, applied before the event is resolved
		outcome     affiliatev1.FraudEventStatus
		wantStatus  commission.Status
		wantReasons []string // of the review
		wantEvents  []string // about the commission
		wantActions []string // on the commission, in the audit log
	}{
		"confirmed": {
			nil, confirmed, commission.Rejected,
			[]string{"fraud"},
			[]string{"commission.rejected"},
			[]string{"commission.reject"},
		},
		"confirmed after approval": {
			transitions{{Move: commission.MoveApprove}},
			confirmed, commission.Rejected, nil,
			[]string{"commission.rejected"},
			[]string{"commission.reject"},
		},
		"confirmed after payment": {
			transitions{{Move: commission.MoveApprove}, {Move: commission.MovePay}}, confirmed, commission.Paid, nil, nil, nil,
		},
		"confirmed after a refund": {
			transitions{{Move: commission.MoveRefund, Full: true, RefundReason: commission.RefundedSale}},
			confirmed,
			commission.Refunded,
			[]string{"fraud"},
			nil, nil,
		},
		"dismissed": {
			nil, dismissed, commission.Pending, nil, []string{"commission.updated"}, []string{"commission.clear_review"},
		},
		"dismissed with another reason for review": {
			transitions{flagSuspended},
			dismissed, commission.Pending,
			[]string{"participant_suspended"},
			[]string{"commission.updated"},
			[]string{"commission.clear_review"},
		},
		"dismissed after the review reason fraud was removed": {
			transitions{flagSuspended, {Move: commission.MoveClearReview, ReviewReasons: []string{"fraud"}}},
			dismissed,
			commission.Pending,
			[]string{"participant_suspended"},
			nil, nil,
		},
		"dismissed after rejection": {
			transitions{{Move: commission.MoveReject}}, dismissed, commission.Rejected, []string{"fraud"}, nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			sale := f.newSuspectedSale(f.pat, fraud.Flagged)
			id := sale.commission.ID
			for _, move := range tc.before {
				f.MoveCommission(*sale.commission, move)
			}
			eventsBefore, _ := f.Events(id.String())
			actionsBefore := f.AuditActions("commission", id.String())

			got, err := f.resolve(sale.event, tc.outcome, "Called the customer")
			if err != nil {
				t.Fatal(err)
			}
			want := proto.CloneOf(got)
			want.Status, want.Note, want.ResolvedBy, want.CommissionId = tc.outcome, new("Called the customer"), new(f.Owner.String()), new(id.String())
			if !proto.Equal(got, want) {
				t.Errorf("ResolveFraudEvent returned %v\nwant %v", got, want)
			}
			c := f.getCommission(id)
			if c.Status != tc.wantStatus || !slices.Equal(c.ReviewReasons, tc.wantReasons) {
				t.Errorf("the commission is %s with review reasons %q, want %s, %q", c.Status, c.ReviewReasons, tc.wantStatus, tc.wantReasons)
			}
			if slices.Contains(tc.wantActions, "commission.reject") && (c.RejectionCode == nil || *c.RejectionCode != "fraud" || c.RejectionReason != nil) {
				t.Errorf("the rejection has code %v and reason %v, want the code fraud and no reason", c.RejectionCode, c.RejectionReason)
			}
			events, _ := f.Events(id.String())
			if want := append(eventsBefore, tc.wantEvents...); !slices.Equal(events, want) {
				t.Errorf("the events about the commission are %q, want %q", events, want)
			}
			if got, want := f.AuditActions("commission", id.String()), append(actionsBefore, tc.wantActions...); !slices.Equal(got, want) {
				t.Errorf("the audit log of the commission has %q, want %q", got, want)
			}
			if got := f.AuditActions("fraud_event", sale.event); !slices.Equal(got, []string{"fraud_event.resolve"}) {
				t.Errorf("the audit log of the fraud event has %q, want fraud_event.resolve", got)
			}
			// The note is stored only in the fraud event.
			if n := f.Count(`select count(*) from events where convert_from(body, 'utf8') like '%Called%'`); n != 0 {
				t.Errorf("%d events contain the note, want none", n)
			}
			if n := f.Count(`select count(*) from audit_log where concat(before, after) like '%Called%'`); n != 0 {
				t.Errorf("%d audit records contain the note, want none", n)
			}

			_, err = f.resolve(sale.event, dismissed, "")
			wantStatus := map[affiliatev1.FraudEventStatus]fraud.EventStatus{confirmed: fraud.EventConfirmed, dismissed: fraud.EventDismissed}
			metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonFraudEventResolved)
			if metadata["status"] != string(wantStatus[tc.outcome]) {
				t.Errorf("the error of a second resolution has status %q, want %q", metadata["status"], wantStatus[tc.outcome])
			}
		})
	}
}

func TestResolveFraudEvent_DismissedCommissionIsApprovedAutomatically(t *testing.T) {
	f := newFixture(t)
	sale := f.newSuspectedSale(f.pat, fraud.Flagged)
	requireApproved := func(want int) {
		t.Helper()
		sweep, err := commissionservice.ApproveDue(t.Context(), f.DB, f.Now(), 10)
		if err != nil || sweep.Approved != want {
			t.Fatalf("ApproveDue approved %d commissions, error %v, want %d", sweep.Approved, err, want)
		}
	}
	requireApproved(0)
	if _, err := f.resolve(sale.event, dismissed, ""); err != nil {
		t.Fatal(err)
	}
	requireApproved(1)
	if status := f.getCommission(sale.commission.ID).Status; status != commission.Approved {
		t.Errorf("the commission is %s, want approved", status)
	}
}

func TestResolveFraudEvent_OfBlockedConversion(t *testing.T) {
	f := newFixture(t)
	got, err := f.resolve(f.newSuspectedSale(f.pat, fraud.Blocked).event, confirmed, "")
	if err != nil {
		t.Fatal(err)
	}
	want := proto.CloneOf(got)
	want.Status, want.CommissionId, want.Note = confirmed, nil, nil
	if !proto.Equal(got, want) {
		t.Errorf("ResolveFraudEvent returned %v\nwant %v", got, want)
	}
}

func TestResolveFraudEvent_InParallelSucceedsOnce(t *testing.T) {
	f := newFixture(t)
	for range 5 {
		sale := f.newSuspectedSale(f.pat, fraud.Flagged)
		results := make(chan error, 8)
		for i := range cap(results) {
			go func() {
				_, err := f.resolve(sale.event, []affiliatev1.FraudEventStatus{dismissed, confirmed}[i%2], "")
				results <- err
			}()
		}
		outcomes := map[affiliate.Reason]int{}
		for range cap(results) {
			outcomes[pgtest.ReasonOf(t, <-results)]++
		}
		if outcomes[""] != 1 || outcomes[affiliate.ReasonFraudEventResolved] != cap(results)-1 {
			t.Errorf("the error codes of %d resolutions are %v, want one success and %s for the others", cap(results), outcomes, affiliate.ReasonFraudEventResolved)
		}
		// The creation of the commission published the first two events.
		if types, _ := f.Events(sale.commission.ID.String()); len(types) != 3 {
			t.Errorf("the events about the commission are %q, want two of its creation and one of a resolution", types)
		}
		if n := f.Count(`select count(*) from commission_history where commission_id = $1`, sale.commission.ID); n != 2 {
			t.Errorf("the history of the commission has %d entries, want the creation and one resolution", n)
		}
	}
}

// One user confirms the event while another user approves its commission. In either
// order, the commission is rejected in the end, and its ledger entries sum up to 0.
func TestResolveFraudEvent_InParallelWithApproval(t *testing.T) {
	f := newFixture(t)
	approvals := map[affiliate.Reason]int{}
	for waits := range pgtest.HeadStarts() {
		sale := f.newSuspectedSale(f.pat, fraud.Flagged)
		id := sale.commission.ID
		var resolveErr, approveErr error
		var calls sync.WaitGroup
		calls.Go(func() {
			time.Sleep(waits[0])
			_, resolveErr = f.resolve(sale.event, confirmed, "")
		})
		calls.Go(func() {
			time.Sleep(waits[1])
			_, approveErr = commissionservice.Move(t.Context(), f.DB, commission.Transition{
				Scope: f.Scope, Program: f.Program, Commission: id, Move: commission.MoveApprove, Actor: affiliate.Actor{User: &f.Owner}, At: f.Now(),
			})
		})
		calls.Wait()
		if resolveErr != nil {
			t.Errorf("ResolveFraudEvent: %v", resolveErr)
		}
		approvals[pgtest.ReasonOf(t, approveErr)]++
		if status := f.getCommission(id).Status; status != commission.Rejected {
			t.Errorf("the commission is %s, want rejected", status)
		}
		if cents := f.Count(`select coalesce(sum(amount_cents), 0) from ledger_entries where commission_id = $1`, id); cents != 0 {
			t.Errorf("the ledger has %d cents for the commission, want 0", cents)
		}
		if len(approvals) == 2 {
			break
		}
	}
	if approvals[""] == 0 || approvals[affiliate.ReasonCommissionNotPending] == 0 {
		t.Errorf("the error codes of the approvals are %v, want success in some rounds and %s in the others", approvals, affiliate.ReasonCommissionNotPending)
	}
}
