package fraud_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func (w *world) listEventIDs(req *affiliatev1.ListFraudEventsRequest) (ids []string, total int64) {
	w.Helper()
	page, err := w.service.ListFraudEvents(w.callContext(w.scope), req)
	if err != nil {
		w.Fatal(err)
	}
	for _, event := range page.GetData() {
		ids = append(ids, event.GetId())
	}
	return ids, page.GetTotal()
}

func TestListFraudEvents(t *testing.T) {
	w := newWorld(t)
	var ids []string
	event, commission := w.newFlaggedCommission()
	ids = append(ids, event)
	c, blocked, none := w.recordSuspiciousPurchase(w.pat, w.program, affiliate.FraudBlock)
	ids = append(ids, blocked.ID.String())
	autumn := w.NewProgram(w.scope, pgtest.Row{"name": "Autumn"})
	sam := w.NewParticipant(w.scope, autumn, w.NewPartner("Sam"))
	_, observed, _ := w.recordSuspiciousPurchase(sam, autumn, affiliate.FraudObserve)
	ids = append(ids, observed.ID.String())
	if _, err := w.resolve(event, dismissed, ptr("Known customer")); err != nil {
		t.Fatal(err)
	}
	if none != nil {
		t.Fatal("a blocked conversion has a commission")
	}

	page, err := w.service.ListFraudEvents(w.callContext(w.scope), &affiliatev1.ListFraudEventsRequest{})
	if err != nil || page.GetTotal() != 3 || page.GetPage() != 1 || page.GetLimit() != 20 || len(page.GetData()) != 3 {
		t.Fatalf("%v, %v", page, err)
	}
	newest, second, oldest := page.GetData()[0], page.GetData()[1], page.GetData()[2]
	if newest.GetId() != ids[2] || newest.GetProgramName() != "Autumn" || newest.GetPartnerName() != "Sam" ||
		newest.GetAction() != affiliatev1.FraudAction_FRAUD_ACTION_OBSERVED || newest.CommissionId == nil || newest.GetMode() != affiliatev1.Mode_MODE_LIVE {
		t.Errorf("%v", newest)
	}
	if second.GetId() != ids[1] || second.GetAction() != affiliatev1.FraudAction_FRAUD_ACTION_BLOCKED || second.CommissionId != nil ||
		second.GetScore() != 100 || len(second.GetSignals()) != 2 || second.GetSignals()[0].GetRule() != "self_referral_email" ||
		second.GetSignals()[0].GetScore() != 100 || second.GetSignals()[0].GetEvidence() == "" ||
		second.GetConversionId() != c.ID.String() || second.GetExternalTransactionId() != c.ExternalTransactionID || second.GetStatus() != open ||
		second.Note != nil || second.ResolvedBy != nil || second.ResolvedAt != nil {
		t.Errorf("%v", second)
	}
	if oldest.GetId() != ids[0] || oldest.GetAction() != affiliatev1.FraudAction_FRAUD_ACTION_FLAGGED || oldest.GetCommissionId() != commission.ID.String() ||
		oldest.GetScore() != 70 || oldest.GetStatus() != dismissed || oldest.GetNote() != "Known customer" || oldest.GetResolvedBy() != w.user.String() || oldest.ResolvedAt == nil {
		t.Errorf("%v", oldest)
	}

	for name, tc := range map[string]struct {
		req   *affiliatev1.ListFraudEventsRequest
		ids   []string
		total int64
	}{
		"open":                  {&affiliatev1.ListFraudEventsRequest{Status: open}, []string{ids[2], ids[1]}, 2},
		"dismissed":             {&affiliatev1.ListFraudEventsRequest{Status: dismissed}, []string{ids[0]}, 1},
		"confirmed":             {&affiliatev1.ListFraudEventsRequest{Status: confirmed}, nil, 0},
		"one programme":         {&affiliatev1.ListFraudEventsRequest{ProgramId: ptr(w.program.String())}, []string{ids[1], ids[0]}, 2},
		"one participant":       {&affiliatev1.ListFraudEventsRequest{ParticipantId: ptr(sam.ID.String())}, []string{ids[2]}, 1},
		"open in one programme": {&affiliatev1.ListFraudEventsRequest{ProgramId: ptr(w.program.String()), Status: open}, []string{ids[1]}, 1},
		"the second page":       {&affiliatev1.ListFraudEventsRequest{Page: ptr(int32(2)), PageSize: ptr(int32(2))}, []string{ids[0]}, 3},
		"beyond the last page":  {&affiliatev1.ListFraudEventsRequest{Page: ptr(int32(9))}, nil, 3},
	} {
		if got, total := w.listEventIDs(tc.req); !slices.Equal(got, tc.ids) || total != tc.total {
			t.Errorf("%s: %q of %d", name, got, total)
		}
	}
}

func TestFraudEvents_OfOtherScopesAreNotFound(t *testing.T) {
	w := newWorld(t)
	event, _ := w.newFlaggedCommission()
	for name, scope := range map[string]affiliate.Scope{
		"another workspace": {Workspace: w.NewWorkspace(), Mode: w.scope.Mode},
		"the other mode":    {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
	} {
		_, err := w.service.ListFraudEvents(w.callContext(scope), &affiliatev1.ListFraudEventsRequest{ProgramId: ptr(w.program.String())})
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s, by programme: %v", name, err)
		}
		page, err := w.service.ListFraudEvents(w.callContext(scope), &affiliatev1.ListFraudEventsRequest{})
		if err != nil || len(page.GetData()) != 0 || page.GetTotal() != 0 {
			t.Errorf("%s: %v, %v", name, page, err)
		}
		_, err = w.service.ResolveFraudEvent(w.callContext(scope), &affiliatev1.ResolveFraudEventRequest{EventId: event, Outcome: confirmed})
		if pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.resolve("no-uuid", confirmed, nil); pgtest.ReasonOf(t, err) != affiliate.ReasonNotFound {
		t.Errorf("%v", err)
	}
	if _, total := w.listEventIDs(&affiliatev1.ListFraudEventsRequest{Status: open}); total != 1 {
		t.Errorf("%d open events", total)
	}
}

func TestResolveFraudEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		before  string // SQL that changes the commission before the event is resolved; may be empty
		outcome affiliatev1.FraudEventStatus
		status  string
		reasons []string
		event   affiliate.EventName // expected event of the commission; empty if it must not change
		action  string
	}{
		"confirmed":                 {"", confirmed, "rejected", []string{"fraud"}, affiliate.EventCommissionRejected, "commission.reject"},
		"confirmed after approval":  {`update commissions set status = 'approved', needs_review = false, review_reasons = '{}'`, confirmed, "rejected", []string{}, affiliate.EventCommissionRejected, "commission.reject"},
		"confirmed after payment":   {`update commissions set status = 'paid', needs_review = false, review_reasons = '{}'`, confirmed, "paid", []string{}, "", ""},
		"confirmed after a refund":  {`update commissions set status = 'refunded'`, confirmed, "refunded", []string{"fraud"}, "", ""},
		"dismissed":                 {"", dismissed, "pending", []string{}, affiliate.EventCommissionUpdated, "commission.clear_review"},
		"dismissed, another flag":   {`update commissions set review_reasons = '{fraud,participant_suspended}'`, dismissed, "pending", []string{"participant_suspended"}, affiliate.EventCommissionUpdated, "commission.clear_review"},
		"dismissed, flag removed":   {`update commissions set needs_review = true, review_reasons = '{participant_suspended}'`, dismissed, "pending", []string{"participant_suspended"}, "", ""},
		"dismissed after rejection": {`update commissions set status = 'rejected'`, dismissed, "rejected", []string{"fraud"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			event, commission := w.newFlaggedCommission()
			if tc.before != "" {
				w.Exec(tc.before)
			}
			got, err := w.resolve(event, tc.outcome, ptr("Called the customer"))
			if err != nil || got.GetStatus() != tc.outcome || got.GetNote() != "Called the customer" || got.GetResolvedBy() != w.user.String() ||
				got.GetCommissionId() != commission.ID.String() {
				t.Fatalf("%v, %v", got, err)
			}
			if status, reasons := w.commissionStatus(commission.ID); status != tc.status || !slices.Equal(reasons, tc.reasons) {
				t.Errorf("%s, %q", status, reasons)
			}
			types, _ := w.Events(commission.ID.String())
			last := types[len(types)-1]
			if want := string(tc.event); want != "" && last != want || want == "" && last != string(affiliate.EventCommissionReviewRequired) {
				t.Errorf("%q", types)
			}
			if got := w.AuditActions("fraud_event", event); !slices.Equal(got, []string{"fraud_event.resolve"}) {
				t.Errorf("%q", got)
			}
			var want []string
			if tc.action != "" {
				want = []string{tc.action}
			}
			if got := w.AuditActions("commission", commission.ID.String()); !slices.Equal(got, want) {
				t.Errorf("%q", got)
			}
			if tc.status == "rejected" && tc.event != "" {
				if n := w.Count(`select count(*) from commissions where rejection_code = 'fraud' and rejection_reason is null`); n != 1 {
					t.Error("the rejection has another code, or a reason")
				}
			}
			// Events and the audit log must not contain the note: only the merchant reads it.
			if n := w.Count(`select count(*) from events where convert_from(body, 'utf8') like '%Called%'`) +
				w.Count(`select count(*) from audit_log where coalesce(before::text, '') || coalesce(after::text, '') like '%Called%'`); n != 0 {
				t.Errorf("%d events and audit records contain the note", n)
			}

			_, err = w.resolve(event, dismissed, nil)
			if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonFraudEventResolved); metadata["status"] != string(domainStatus(tc.outcome)) {
				t.Errorf("%v", metadata)
			}
		})
	}
}

func domainStatus(s affiliatev1.FraudEventStatus) affiliate.FraudEventStatus {
	if s == confirmed {
		return affiliate.FraudEventConfirmed
	}
	return affiliate.FraudEventDismissed
}

// After its fraud event was dismissed, a commission is approved automatically again.
func TestResolveFraudEvent_DismissedCommissionIsApprovedAutomatically(t *testing.T) {
	w := newWorld(t)
	event, commission := w.newFlaggedCommission()
	if sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(w.Store), w.now(), 10); err != nil || sweep.Approved != 0 {
		t.Fatalf("%+v, %v", sweep, err)
	}
	if _, err := w.resolve(event, dismissed, nil); err != nil {
		t.Fatal(err)
	}
	if sweep, err := commissionservice.ApproveDue(t.Context(), stores.Commission(w.Store), w.now(), 10); err != nil || sweep.Approved != 1 {
		t.Fatalf("%+v, %v", sweep, err)
	}
	if status, _ := w.commissionStatus(commission.ID); status != "approved" {
		t.Error(status)
	}
}

func TestResolveFraudEvent_OfBlockedConversion(t *testing.T) {
	w := newWorld(t)
	_, d, _ := w.recordSuspiciousPurchase(w.pat, w.program, affiliate.FraudBlock)
	if got, err := w.resolve(d.ID.String(), confirmed, nil); err != nil || got.GetStatus() != confirmed || got.CommissionId != nil || got.Note != nil {
		t.Errorf("%v, %v", got, err)
	}
}

func TestResolveFraudEvent_InParallelSucceedsOnce(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		event, commission := w.newFlaggedCommission()
		var succeeded, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				outcome := confirmed
				if i%2 == 0 {
					outcome = dismissed
				}
				switch _, err := w.resolve(event, outcome, nil); pgtest.ReasonOf(t, err) {
				case "":
					succeeded.Add(1)
				case affiliate.ReasonFraudEventResolved:
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if succeeded.Load() != 1 || refused.Load() != 7 {
			t.Errorf("%d succeeded, %d were refused", succeeded.Load(), refused.Load())
		}
		// created, review required, and the event of the one resolution
		if types, _ := w.Events(commission.ID.String()); len(types) != 3 {
			t.Errorf("%q", types)
		}
		if n := w.Count(`select count(*) from commission_history where commission_id = $1`, commission.ID); n != 2 {
			t.Errorf("%d history records", n)
		}
	}
}

// One user confirms the event while another approves its commission. In either order the
// commission ends rejected and nothing is owed.
func TestResolveFraudEvent_InParallelWithApproval(t *testing.T) {
	w := newWorld(t)
	for range 5 {
		event, commission := w.newFlaggedCommission()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := w.resolve(event, confirmed, nil); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			_, err := commissionservice.Move(t.Context(), stores.Commission(w.Store), affiliate.CommissionTransition{
				Scope: w.scope, Program: w.program, Commission: commission.ID, Move: affiliate.MoveApprove,
				Actor: affiliate.Actor{User: &w.user}, At: w.now(),
			})
			if reason := pgtest.ReasonOf(t, err); reason != "" && reason != affiliate.ReasonCommissionNotPending {
				t.Error(err)
			}
		})
		wg.Wait()
		if status, _ := w.commissionStatus(commission.ID); status != "rejected" {
			t.Error(status)
		}
		if cents := w.Count(`select coalesce(sum(amount_cents), 0) from ledger_entries where commission_id = $1`, commission.ID); cents != 0 {
			t.Errorf("the ledger has %d cents", cents)
		}
	}
}
