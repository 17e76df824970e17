package payout

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

var payoutTime = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// The test applies random moves to a payout and compares the results with a separate
// table of legal moves. After every move, the sum of the ledger entries must be minus the
// amount that was sent.
func TestPayoutTransition_MatchesModel(t *testing.T) {
	legal := map[Status]map[Move]Status{
		Draft:      {MoveConfirm: Pending, MoveCancel: Canceled, MoveFollow: Draft},
		Pending:    {MoveProcess: Processing, MoveMarkPaid: Paid, MoveMarkFailed: Failed, MoveCancel: Canceled, MoveFollow: Pending},
		Processing: {MoveMarkPaid: Paid, MoveMarkFailed: Failed},
		Failed:     {MoveRetry: Pending, MoveCancel: Canceled},
		Paid:       {},
		Canceled:   {},
	}
	events := map[Status]affiliate.EventName{
		Processing: affiliate.EventPayoutProcessing, Paid: affiliate.EventPayoutPaid, Failed: affiliate.EventPayoutFailed, Canceled: affiliate.EventPayoutCanceled,
	}
	moves := []Move{MoveConfirm, MoveProcess, MoveMarkPaid, MoveMarkFailed, MoveRetry, MoveCancel, MoveFollow}
	rapid.Check(t, func(t *rapid.T) {
		p := Payout{ID: affiliate.NewID[affiliate.PayoutID](payoutTime), AmountCents: rapid.Int64Range(1, 1000).Draw(t, "cents"), Payee: Payee{Currency: "EUR"}, Status: Draft, Version: 1}
		var ledgerCents int64
		for range rapid.IntRange(1, 8).Draw(t, "steps") {
			reason, reference := "R", "T"
			move := Transition{
				Move: rapid.SampledFrom(moves).Draw(t, "move"), At: payoutTime, Reason: &reason, Reference: &reference, PaidAt: payoutTime,
			}
			change, refusal := move.Apply(p)
			to, ok := legal[p.Status][move.Move]
			if (refusal == nil) != ok {
				t.Fatalf("%s in status %s: error %v, want success: %v", move.Move, p.Status, refusal, ok)
			}
			if refusal != nil {
				if refusal.Reason != affiliate.ReasonPayoutState || refusal.Metadata["status"] != string(p.Status) {
					t.Fatalf("%s in status %s: error %v with metadata %v", move.Move, p.Status, refusal, refusal.Metadata)
				}
				continue
			}
			after := change.After
			if after.Status != to || after.Version != p.Version+1 || !after.UpdatedAt.Equal(payoutTime) || change.Before != p {
				t.Fatalf("%s changed %+v\nto %+v\nwant status %s, the next version, and UpdatedAt %s", move.Move, p, after, to, payoutTime)
			}
			if (after.FailureReason != nil) != (to == Failed || p.Status == Failed && to == Canceled) || (after.PaidAt != nil) != (to == Paid) ||
				(after.Reference != nil) != (to == Paid) || move.Move == MoveConfirm && after.InitiatedAt == nil {
				t.Fatalf("after %s, a time, the reference or the failure reason is wrong: %+v", move.Move, after)
			}
			if event, hasEvent := change.Event(nil); hasEvent != (events[to] != "") || hasEvent && event.Name != events[to] {
				t.Fatalf("%s has the event %q, want %q", move.Move, event.Name, events[to])
			}
			if entry := change.LedgerEntry(); entry != nil {
				ledgerCents += entry.AmountCents
				if (entry.Type == ledger.EntryPayout) != (entry.AmountCents < 0) || *entry.Payout != p.ID {
					t.Fatalf("the ledger entry of %s has the wrong sign or payout: %+v", move.Move, entry)
				}
			}
			p = after
			want := int64(0)
			if p.Status == Processing || p.Status == Paid {
				want = -p.AmountCents
			}
			if ledgerCents != want {
				t.Fatalf("status %s: the sum of the ledger entries is %d, want %d", p.Status, ledgerCents, want)
			}
		}
	})
}

func TestPayout_Follow(t *testing.T) {
	first, last := payoutTime, payoutTime.Add(time.Hour)
	paid := Payout{Status: Pending, AmountCents: 95, AdjustmentCents: -5, CommissionCount: 2, PeriodStart: &first, PeriodEnd: &last, Version: 3}
	for name, tc := range map[string]struct {
		left   Content
		status Status
		amount int64
		count  int64
	}{
		"one of two commissions left": {Content{1, 60, &last, &last}, Pending, 55, 1},
		"both commissions reduced":    {Content{2, 6, &first, &last}, Pending, 1, 2},
		"no more left than the debt":  {Content{1, 5, &last, &last}, Canceled, 95, 2},
		"no commission left":          {Content{}, Canceled, 95, 2},
		"commissions of 0 left":       {Content{2, 0, &first, &last}, Canceled, 95, 2},
	} {
		change, refusal := paid.Follow(tc.left, affiliate.System, last)
		after := change.After
		if refusal != nil || after.Status != tc.status || after.AmountCents != tc.amount || after.CommissionCount != tc.count || after.Version != 4 || after.AdjustmentCents != -5 {
			t.Errorf("%s: payout %+v, error %v; want status %s, amount %d, %d commissions, version 4",
				name, after, refusal, tc.status, tc.amount, tc.count)
		}
		if _, hasEvent := change.Event(nil); hasEvent != (tc.status == Canceled) || change.LedgerEntry() != nil {
			t.Errorf("%s: has an event: %v, ledger entry %v; want an event only if canceled, and no entry", name, hasEvent, change.LedgerEntry())
		}
		if tc.status == Pending && after.PeriodStart != tc.left.PeriodStart {
			t.Errorf("%s: PeriodStart %v", name, after.PeriodStart)
		}
	}
	bonus := Payout{Status: Draft, AmountCents: 130, AdjustmentCents: 30, CommissionCount: 1}
	if change, refusal := bonus.Follow(Content{}, affiliate.System, last); refusal != nil || change.After.Status != Draft || change.After.AmountCents != 30 {
		t.Errorf("only a bonus left: %+v, %v", change.After, refusal)
	}
	for _, status := range []Status{Processing, Paid, Failed, Canceled} {
		if _, refusal := (Payout{Status: status, AmountCents: 1}).Follow(Content{1, 1, &first, &first}, affiliate.System, last); refusal == nil {
			t.Errorf("Follow succeeded in status %s", status)
		}
	}
}

func TestExclusion_ReturnsFirstReason(t *testing.T) {
	method := Manual
	due := Due{CommissionCents: 150, AdjustmentCents: -50, MinPayoutCents: 100, Method: &method, ParticipantStatus: participant.Approved}
	for want, changes := range map[Exclusion][]func(*Due){
		"": {
			func(*Due) {},
			func(d *Due) { d.CommissionCents, d.AdjustmentCents = 0, 100 },
			func(d *Due) { d.CommissionCents, d.MinPayoutCents = 51, 0 },
		},
		BelowMinimum: {
			func(d *Due) { d.MinPayoutCents = 101 },
			func(d *Due) { d.CommissionCents, d.MinPayoutCents = 50, 0 },
		},
		NegativeBalance:        {func(d *Due) { d.CommissionCents = 49 }},
		NoPayoutMethod:         {func(d *Due) { d.Method, d.CommissionCents = nil, 0 }},
		ParticipantNotApproved: {func(d *Due) { d.ParticipantStatus, d.Method = participant.Suspended, nil }, func(d *Due) { d.ParticipantErased = true }},
	} {
		for i, change := range changes {
			d := due
			change(&d)
			if got := d.Exclusion(); got != want {
				t.Errorf("case %d: Exclusion() = %q, want %q", i, got, want)
			}
		}
	}
}

func TestPayout_WithAmounts(t *testing.T) {
	method := Wise
	first, last := payoutTime, payoutTime.Add(time.Hour)
	d := Due{CommissionCount: 9, CommissionCents: 9, AdjustmentCents: 5, Method: &method}.WithCommissions([]Candidate{
		{AmountCents: 10, ApprovedAt: last}, {AmountCents: 20, ApprovedAt: first}, {AmountCents: 30, ApprovedAt: first},
	})
	p := Payout{ID: affiliate.NewID[affiliate.PayoutID](payoutTime)}.WithAmounts(d)
	if p.AmountCents != 65 || p.AdjustmentCents != 5 || p.CommissionCount != 3 || !p.PeriodStart.Equal(first) || !p.PeriodEnd.Equal(last) || p.Method != Wise {
		t.Errorf("payout %+v; want amount 65, adjustment 5, 3 commissions approved from %s to %s", p, first, last)
	}
	if p = p.WithAmounts(d.WithCommissions(nil)); p.AmountCents != 5 || p.CommissionCount != 0 || p.PeriodStart != nil || p.PeriodEnd != nil {
		t.Errorf("payout without commissions: %+v; want amount 5 and no period", p)
	}
}

func TestPayoutBatch_Follow(t *testing.T) {
	for _, c := range []struct {
		counts Counts
		want   BatchStatus
	}{
		{Counts{Draft: 1, Canceled: 1}, BatchDraft},
		{Counts{Pending: 2, Canceled: 1}, BatchConfirmed},
		{Counts{Pending: 1, Failed: 1}, BatchConfirmed},
		{Counts{Pending: 1, Paid: 1}, BatchProcessing},
		{Counts{Processing: 1}, BatchProcessing},
		{Counts{Paid: 1, Canceled: 1}, BatchCompleted},
		{Counts{Paid: 1, Failed: 1}, BatchPartiallyFailed},
		{Counts{Failed: 1, Canceled: 1}, BatchPartiallyFailed},
		{Counts{Canceled: 3}, BatchCanceled},
	} {
		before := Batch{Status: BatchConfirmed}
		got := before.Follow(c.counts, payoutTime)
		if got.Status != c.want || (got.CompletedAt != nil) != c.want.Ended() {
			t.Errorf("%v: status %s, completed at %v; want %s, completed: %v", c.counts, got.Status, got.CompletedAt, c.want, c.want.Ended())
		}
		later := got.Follow(c.counts, payoutTime.Add(time.Hour))
		if got.CompletedAt != nil && !later.CompletedAt.Equal(payoutTime) {
			t.Errorf("%v: the second call of Follow changed CompletedAt", c.counts)
		}
		if reopened := got.Follow(Counts{Pending: 1}, payoutTime); reopened.CompletedAt != nil {
			t.Errorf("%v: CompletedAt is set although a payout is pending", c.counts)
		}
	}
}

func TestPayoutEvent_KeysAndTheirOrder(t *testing.T) {
	id := func(n byte) (u affiliate.PayoutID) { u.UUID[15] = n; return u }
	p := Payout{
		ID: id(1), Batch: BatchID(id(2)), Payee: Payee{Participant: affiliate.ParticipantID(id(3)), Currency: "EUR"}, AmountCents: 100, Method: PayPal,
		Status: Draft, CommissionCount: 201, Version: 1,
	}
	body, err := json.Marshal(p.CreatedEvent(nil).Object)
	want := `{"id":"00000000-0000-0000-0000-000000000001","batch_id":"00000000-0000-0000-0000-000000000002",` +
		`"participant_id":"00000000-0000-0000-0000-000000000003","amount_cents":100,"currency":"EUR","method":"paypal","status":"draft",` +
		`"commission_ids":[],"commission_count":201,"failure_reason":null,"version":1}`
	if err != nil || string(body) != want {
		t.Errorf("JSON of the payout is %s, error %v; want\n%s", body, err, want)
	}
	object, _ := p.CreatedEvent(slices.Repeat([]affiliate.CommissionID{affiliate.CommissionID(id(9))}, 201)).Object.(Object)
	if len(object.Commissions) != MaxEventCommissions {
		t.Errorf("the event lists %d commissions, want %d", len(object.Commissions), MaxEventCommissions)
	}
}

func TestManualEntry_Check(t *testing.T) {
	// The keys are the fields of the violation. Spaces make the keys unique.
	for field, e := range map[string]ledger.ManualEntry{
		"":               {Type: ledger.EntryBonus, AmountCents: 1},
		" ":              {Type: ledger.EntryAdjustment, AmountCents: -1, Currency: "JPY"},
		"amount_cents":   {Type: ledger.EntryAdjustment},
		"amount_cents ":  {Type: ledger.EntryBonus, AmountCents: -1},
		"amount_cents  ": {Type: ledger.EntryBonus},
		"currency":       {Type: ledger.EntryBonus, AmountCents: 1, Currency: "XXX"},
	} {
		got := e.Check()
		if want := len(slices.DeleteFunc([]byte(field), func(b byte) bool { return b == ' ' })); (want == 0) != (got == nil) || want > 0 && got[0].Field != field[:want] {
			t.Errorf("Check of %+v returns %v, want a violation of %q", e, got, field[:want])
		}
	}
}

func TestFitBatch_LongestWaitingFirst(t *testing.T) {
	at := func(day int) *time.Time {
		d := time.Date(2026, 1, day, 0, 0, 0, 0, time.UTC)
		return &d
	}
	bonus := Due{PartnerName: "bonus"}
	old := Due{PartnerName: "old", CommissionCount: MaxBatchCommissions - 1, PeriodStart: at(1)}
	huge := Due{PartnerName: "huge", CommissionCount: 2 * MaxBatchCommissions, PeriodStart: at(2)}
	one := Due{PartnerName: "one", CommissionCount: 1, PeriodStart: at(3)}
	for _, c := range []struct {
		payable []Due
		want    string
	}{
		{nil, ""},
		{[]Due{one, old}, "old one"},
		{[]Due{one, huge, old, bonus}, "bonus old"},
		{[]Due{one, huge}, "huge"},
		{[]Due{one, one, old}, "old one"},
	} {
		var names []string
		for _, d := range FitBatch(c.payable) {
			names = append(names, d.PartnerName)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("FitBatch selects %q, want %q", got, c.want)
		}
	}
}
