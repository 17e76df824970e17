package commission_test

import (
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/affiliatetest"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
)

func eventNames(events []affiliate.Event) []affiliate.EventName {
	all := make([]affiliate.EventName, len(events))
	for i, event := range events {
		all[i] = event.Name
	}
	return all
}

// openPayoutStatuses lists the statuses of a payout that contains an approved commission.
var openPayoutStatuses = []payout.Status{payout.Draft, payout.Pending, payout.Processing}

// The test applies the moves of random scenarios. After every move, the sum of the
// ledger entries, the sum of the earnings and the counts must agree with the state of
// the commission.
func TestCommissionChange_MatchesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		scenario := commissiontest.Scenarios(40).Draw(t, "scenario")
		c := scenario.Initial
		c.ID.UUID[15], c.Participant.UUID[15], c.Partner.UUID[15], c.Program.UUID[15] = 1, 2, 3, 4
		c.Scope = affiliate.Scope{Workspace: affiliate.WorkspaceID{UUID: [16]byte{15: 5}}, Mode: affiliate.ModeTest}
		creation := commission.NewChange(c, affiliate.System, nil)

		var owed, earned int64
		counted := map[commission.CountGroup]int64{}
		check := func(change commission.Change, events []affiliate.EventName, kind ledger.EntryType, cents int64) {
			if got := eventNames(change.Events()); !slices.Equal(got, events) {
				t.Fatalf("change %+v\nhas the events %v, want %v", change, got, events)
			}
			entry := change.LedgerEntry()
			if (entry == nil) != (cents == 0) {
				t.Fatalf("change %+v\nhas the ledger entry %+v, want type %q and amount %d", change, entry, kind, cents)
			}
			if entry != nil {
				owed += entry.AmountCents
				want := ledger.Entry{
					ID: entry.ID, Scope: c.Scope, Program: c.Program, Participant: c.Participant, Partner: c.Partner, Type: kind, AmountCents: cents,
					Currency: c.Currency, Commission: &c.ID, CreatedBy: change.Transition.Actor.String(), CreatedAt: change.Transition.At,
				}
				if entry.ID.IsZero() || !reflect.DeepEqual(*entry, want) {
					t.Fatalf("change %+v\nhas the ledger entry %+v, want %+v", change, *entry, want)
				}
			}
			earned += change.EarnedCents()
			if change.Before != nil {
				counted[change.Before.CountGroup()]--
			}
			counted[change.After.CountGroup()]++
			if want := commissiontest.LedgerCents(change.After); owed != want {
				t.Fatalf("after change %+v\nthe sum of the ledger entries is %d, want %d", change, owed, want)
			}
			if want := commissiontest.EarnedCents(change.After); earned != want {
				t.Fatalf("after change %+v\nthe sum of the earnings is %d, want %d", change, earned, want)
			}
			if amount, original := change.After.AmountCents, change.After.OriginalAmountCents; amount < 0 || amount > original || change.After.ReversedCents() != original-amount {
				t.Fatalf("after change %+v\nthe amount is %d and ReversedCents() = %d, want 0 to %d, and the difference to %d",
					change, amount, change.After.ReversedCents(), original, original)
			}
			maps.DeleteFunc(counted, func(_ commission.CountGroup, n int64) bool { return n == 0 })
			day := time.Date(c.CreatedAt.Year(), c.CreatedAt.Month(), c.CreatedAt.Day(), 0, 0, 0, 0, time.UTC)
			want := map[commission.CountGroup]int64{{
				Scope: c.Scope, Program: c.Program, Status: change.After.Status, NeedsReview: change.After.NeedsReview, Currency: c.Currency, Day: day,
			}: 1}
			if !maps.Equal(counted, want) {
				t.Fatalf("after change %+v\nthe counts are %v, want %v", change, counted, want)
			}
		}

		owedAtCreation := commissiontest.LedgerCents(c)
		check(creation, commissiontest.CreationEvents(c), ledger.EntryCommissionApproved, owedAtCreation)
		for _, step := range scenario.Steps {
			step.PayoutStatus = ""
			if c.Status == commission.Approved && rapid.Bool().Draw(t, "in payout") {
				c.Payout = &affiliate.PayoutID{UUID: [16]byte{15: 4}}
				step.PayoutStatus = rapid.SampledFrom(openPayoutStatuses).Draw(t, "payout status")
			}
			want := commissiontest.Expected(c, step)
			after, refusal := step.Apply(c)
			if (refusal == nil) != (want.Refusal == "") || refusal != nil && refusal.Reason != want.Refusal {
				t.Fatalf("applying %+v\nto %+v\nreturns the error %v, want %q", step, c, refusal, want.Refusal)
			}
			if !reflect.DeepEqual(after, want.After) {
				t.Fatalf("applying %+v\nto %+v\nreturns %+v\nwant    %+v", step, c, after, want.After)
			}
			if refusal != nil {
				continue
			}
			before := c
			change := commission.Change{Before: &before, After: after, Transition: step}
			if leaves := before.Payout != nil && after.Payout == nil; change.LeavesPayout() != leaves {
				t.Fatalf("change %+v\nLeavesPayout() = %v, want %v", change, change.LeavesPayout(), leaves)
			}
			unsent := step.PayoutStatus == payout.Draft || step.PayoutStatus == payout.Pending
			changes := unsent && after.Payout != nil && after.AmountCents != before.AmountCents
			if change.ChangesPayoutAmount() != changes {
				t.Fatalf("change %+v\nChangesPayoutAmount() = %v, want %v", change, change.ChangesPayoutAmount(), changes)
			}
			check(change, []affiliate.EventName{want.Event}, want.Entry, want.EntryCents)
			c = after
		}
	})
}

func TestCommissionChange_Note(t *testing.T) {
	for name, tc := range map[string]struct {
		change commission.Change
		want   *string
	}{
		"neither reason nor note": {commission.Change{}, nil},
		"reason only":             {commission.Change{Transition: commission.Transition{Reason: new("why")}}, new("why")},
		"note and reason":         {commission.Change{Transition: commission.Transition{Reason: new("why"), Note: new("words")}}, new("words")},
		"created with a note":     {commission.NewChange(commission.Commission{}, affiliate.System, new("given")), new("given")},
		"created without a note":  {commission.NewChange(commission.Commission{}, affiliate.System, nil), nil},
		"empty note":              {commission.Change{Transition: commission.Transition{Reason: new("why"), Note: new("")}}, new("")},
	} {
		if got := tc.change.Note(); !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: Note() = %s, want %s", name, quoteOrNil(got), quoteOrNil(tc.want))
		}
	}
}

func quoteOrNil(text *string) string {
	if text == nil {
		return "nil"
	}
	return strconv.Quote(*text)
}

// sampleCommission returns a commission with short, readable ids.
func sampleCommission() commission.Commission {
	return commission.Commission{
		ID: affiliate.CommissionID{UUID: [16]byte{15: 1}}, Status: commission.Approved, AmountCents: 450, OriginalAmountCents: 500, Currency: "EUR",
		Scope:      affiliate.Scope{Workspace: affiliate.WorkspaceID{UUID: [16]byte{15: 2}}, Mode: affiliate.ModeTest},
		Conversion: affiliate.ConversionID{UUID: [16]byte{15: 3}}, Program: affiliate.ProgramID{UUID: [16]byte{15: 5}}, ExternalTransactionID: "order-7", Participant: affiliate.ParticipantID{UUID: [16]byte{15: 4}},
		HoldUntil: new(affiliatetest.Noon.Add(-time.Hour)), Dispute: commission.DisputeNone, Version: 2,
	}
}

func body(t *testing.T, event affiliate.Event) string {
	t.Helper()
	text, err := event.Body()
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestCommissionEvent_KeysAndTheirOrder(t *testing.T) {
	after := sampleCommission()
	before := after
	before.Status, before.NeedsReview, before.ReviewReasons = commission.Pending, true, []string{"fx_rate_missing"}

	event := commission.NewEvent(affiliate.EventCommissionApproved, affiliatetest.Noon, &before, after)
	want := `{"id":"` + event.WireID() + `","type":"commission.approved","api_version":"v1",` +
		`"timestamp":"2026-03-01T12:00:00.000Z","mode":"test","workspace_id":"00000000-0000-0000-0000-000000000002",` +
		`"data":{"object":{"id":"00000000-0000-0000-0000-000000000001","program_id":"00000000-0000-0000-0000-000000000005","status":"approved","amount_cents":450,` +
		`"original_amount_cents":500,"currency":"EUR","conversion_id":"00000000-0000-0000-0000-000000000003","external_transaction_id":"order-7",` +
		`"participant_id":"00000000-0000-0000-0000-000000000004","hold_until":"2026-03-01T11:00:00.000Z",` +
		`"needs_review":false,"review_reasons":[],"dispute_status":"none","version":2},` +
		`"previous_attributes":{"status":"pending","needs_review":true,"review_reasons":["fx_rate_missing"]}}}`
	if got := body(t, event); got != want {
		t.Errorf("body\n%s\nwant\n%s", got, want)
	}

	after.HoldUntil = nil
	if event := commission.NewEvent(affiliate.EventCommissionCreated, affiliatetest.Noon, nil, after); event.Previous != nil || !strings.Contains(body(t, event), `"hold_until":null`) {
		t.Errorf("body of a new commission without hold period: %s\nwant hold_until null and no previous attributes", body(t, event))
	}
	if event := commission.NewEvent(affiliate.EventCommissionApproved, affiliatetest.Noon, &after, after); event.Previous != nil {
		t.Errorf("nothing changed, but the previous attributes are %v", event.Previous)
	}
}

func TestCommissionRefundedEvent_DescribesTheRefund(t *testing.T) {
	for name, tc := range map[string]struct {
		status       commission.Status
		move         commission.Transition
		object, prev string
	}{
		"in part, before it is paid": {
			commission.Approved,
			commission.Transition{Move: commission.MoveRefund, AmountCents: 300, RefundReason: commission.RefundedSale},
			`"version":3,"refund":{"type":"partial","amount_cents":150,"reason":"refund","clawback_cents":0}}`, `{"amount_cents":450}`,
		},
		"in part, after it is paid": {
			commission.Paid,
			commission.Transition{Move: commission.MoveRefund, AmountCents: 300, RefundReason: commission.RefundedSale},
			`"version":3,"refund":{"type":"partial","amount_cents":150,"reason":"refund","clawback_cents":150}}`, `{"amount_cents":450}`,
		},
		"in full, while pending": {
			commission.Pending,
			commission.Transition{Move: commission.MoveRefund, Full: true, RefundReason: commission.DisputedSale},
			`"version":3,"refund":{"type":"full","amount_cents":450,"reason":"dispute_lost","clawback_cents":0}}`, `{"status":"pending","amount_cents":450}`,
		},
		"in full, after it is paid": {
			commission.Paid,
			commission.Transition{Move: commission.MoveRefund, Full: true, RefundReason: commission.RefundedSale},
			`"version":3,"refund":{"type":"full","amount_cents":450,"reason":"refund","clawback_cents":450}}`, `{"status":"paid","amount_cents":450}`,
		},
		"assigned to another participant": {
			commission.Paid,
			commission.Transition{Move: commission.MoveClawBack, RefundReason: commission.ReassignedSale},
			`"version":3,"refund":{"type":"full","amount_cents":450,"reason":"reattributed","clawback_cents":450}}`, `{"status":"paid","amount_cents":450}`,
		},
	} {
		before := sampleCommission()
		before.Status, tc.move.At = tc.status, affiliatetest.Noon
		after, refusal := tc.move.Apply(before)
		if refusal != nil {
			t.Fatal(name, refusal)
		}
		events := commission.Change{Before: &before, After: after, Transition: tc.move}.Events()
		got := body(t, events[0])
		if len(events) != 1 || !strings.Contains(got, `{"object":{"id":"00000000-0000-0000-0000-000000000001","program_id":"00000000-0000-0000-0000-000000000005","status":"`+string(after.Status)+`"`) ||
			!strings.Contains(got, tc.object) || !strings.HasSuffix(got, `"previous_attributes":`+tc.prev+`}}`) {
			t.Errorf("%s: %d events, the first is %s\nwant one event with status %s, object %s and previous attributes %s",
				name, len(events), got, after.Status, tc.object, tc.prev)
		}
	}
}
