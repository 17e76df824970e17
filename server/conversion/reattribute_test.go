package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
)

var merchant = affiliate.NewID[affiliate.User](time.Now())

// asMerchant returns the context of a call with a merchant's token.
func asMerchant(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(context.Background(), server.Principal{
		Kind: server.MerchantToken, User: merchant, Workspace: scope.Workspace, Mode: scope.Mode, Role: affiliate.RoleOwner,
	})
}

func (w *world) reattribute(conversion string, to affiliate.ParticipantID) (*affiliatev1.ReportConversionResponse, error) {
	return w.service.ReattributeConversion(asMerchant(w.scope), &affiliatev1.ReattributeConversionRequest{
		ConversionId: conversion, ParticipantId: to.String(), Reason: "They called.",
	})
}

func (w *world) mustReattribute(conversion string, to affiliate.ParticipantID) *affiliatev1.ReportConversionResponse {
	w.Helper()
	r, err := w.reattribute(conversion, to)
	if err != nil {
		w.Fatal(err)
	}
	return r
}

func TestReattribute_MovesAllEffects(t *testing.T) {
	w := newWorld(t)
	other, otherPartner := w.newParticipant(w.scope, w.program)
	w.mustReport(buy("order-0", "ann", w.clickOf(w.participant).ID))
	click := w.clickOf(w.participant)
	before := w.mustReport(buy("order-1", "ann", click.ID))
	w.Exec(`update programs set rules = rules || '{"rate_bps":1000}', rules_version = 5`)

	r := w.mustReattribute(before.GetId(), other)
	a := r.GetAttribution()
	if r.GetId() != before.GetId() || !r.GetAttributed() || a.GetMethod() != "manual" || a.GetReasonCode() != "MANUALLY_REASSIGNED" ||
		a.GetParticipantId() != other.String() || a.GetProgramId() != w.program.String() || a.GetClickId() != click.ID.String() ||
		a.GetExplanation() == "" || a.GetDecisionId() == before.GetAttribution().GetDecisionId() || r.GetExternalTransactionId() != "order-1" ||
		r.GetAmountCents() != 10_000 || r.GetCurrency() != "EUR" || !r.GetCreatedAt().AsTime().Equal(before.GetCreatedAt().AsTime()) {
		t.Errorf("%v", r)
	}
	c := r.GetCommission()
	if c.GetAmountCents() != 1_000 || c.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING || c.GetId() == before.GetCommission().GetId() {
		t.Errorf("%v", c)
	}

	w.wantCount(1, `conversions where id = $1 and attributed and participant_id = $2 and program_id = $3 and reason_code = 'MANUALLY_REASSIGNED'
		and version = 2 and link_id is null and recurring_index = 2 and decision_id = $4`, r.GetId(), other, w.program, a.GetDecisionId())
	w.wantCount(1, `attribution_decisions where id = $1 and supersedes = $2 and decided_by = $3 and method = 'manual' and participant_id = $4`,
		a.GetDecisionId(), before.GetAttribution().GetDecisionId(), merchant, other)
	w.wantCount(1, `commissions where id = $1 and status = 'rejected' and rejection_reason = 'reattributed' and version = 2`, before.GetCommission().GetId())
	w.wantCount(1, `commission_history where commission_id = $1 and to_status = 'rejected' and reason = 'They called.' and actor = $2`,
		before.GetCommission().GetId(), merchant.String())
	w.wantCount(1, `commissions where id = $1 and participant_id = $2 and partner_id = $3 and recurring_index = 2 and (rule_snapshot->>'version')::int = 5
		and hold_until > created_at + interval '29 days' and decision_id = $4`, c.GetId(), other, otherPartner, a.GetDecisionId())
	w.wantCount(1, `commission_history where commission_id = $1 and to_status = 'pending' and actor = $2`, c.GetId(), merchant.String())
	w.wantCount(1, `audit_log where action = 'conversion.reattribute' and resource_id = $1::uuid and actor = $2 and mode = 'test'
		and before = jsonb_build_object('program_id', $3::text, 'participant_id', $4::text)
		and after = jsonb_build_object('program_id', $3::text, 'participant_id', $5::text, 'reason', 'They called.')`,
		r.GetId(), merchant.String(), w.program.String(), w.participant.String(), other.String())
	w.wantCount(1, `audit_log`)
	w.wantCount(1, `customers c join conversions v on v.external_transaction_id = 'order-0' where c.participant_id = $1 and c.bound_at = v.occurred_at
		and c.window_ends_at = v.occurred_at + interval '720 hours'`, other)
	w.wantCount(1, `customer_payments where payments = 2`)
	w.wantStats(w.participant, "EUR", stats{conversions: 1, revenue: 10_000, commission: 3_000})
	w.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000, commission: 1_000})
	w.wantCount(1, `(select link_id from stats_deltas where link_id is not null group by link_id having sum(conversions) = 1) x`)

	types, objects := w.Events()
	if want := []string{"conversion.reattributed", "commission.rejected", "commission.created"}; !slices.Equal(types[4:], want) {
		t.Fatalf("events: %v", types[4:])
	}
	if objects[4]["version"] != 2.0 || objects[4]["participant_id"] != other.String() || objects[5]["id"] != before.GetCommission().GetId() ||
		objects[5]["status"] != "rejected" || objects[6]["id"] != c.GetId() {
		t.Errorf("%v", objects[4:])
	}

	// After a move back to the first participant, rejected commissions stay rejected.
	w.mustReattribute(before.GetId(), w.participant)
	w.wantCount(2, `commissions where conversion_id = $1 and status = 'rejected'`, r.GetId())
	w.wantCount(1, `commissions where conversion_id = $1 and status = 'pending' and participant_id = $2`, r.GetId(), w.participant)
	w.wantStats(other, "EUR", stats{})
	w.wantStats(w.participant, "EUR", stats{conversions: 2, revenue: 20_000, commission: 4_000})
}

func TestReattribute_ToOtherProgrammeMovesPayment(t *testing.T) {
	w := newWorld(t)
	program := w.newProgram(w.scope)
	w.Exec(`update programs set attribution_window_days = 7 where id = $1`, program)
	other, _ := w.newParticipant(w.scope, program)
	first := w.mustReport(buy("order-1", "ann", w.clickOf(w.participant).ID))
	w.mustReport(buy("order-2", "ann", w.clickOf(w.participant).ID))

	r := w.mustReattribute(first.GetId(), other)
	if r.GetAttribution().GetProgramId() != program.String() {
		t.Errorf("%v", r)
	}
	w.wantCount(1, `customer_payments p join conversions c on c.external_transaction_id = 'order-2' where p.program_id = $1 and p.payments = 1 and p.first_at = c.occurred_at`, w.program)
	w.wantCount(1, `customer_payments p join conversions c on c.external_transaction_id = 'order-1' where p.program_id = $1 and p.payments = 1 and p.first_at = c.occurred_at`, program)
	w.wantCount(1, `customers where program_id = $1 and participant_id = $2 and window_ends_at = bound_at + interval '168 hours'`, program, other)
	w.wantCount(1, `conversions where external_transaction_id = 'order-1' and recurring_index = 1`)

	second := w.mustReattribute(w.id(`select id from conversions where external_transaction_id = 'order-2'`), other)
	w.wantCount(1, `commissions where id = $1 and recurring_index = 2`, second.GetCommission().GetId())
	w.wantCount(0, `customer_payments where program_id = $1`, w.program)
	w.wantCount(1, `customer_payments where program_id = $1 and payments = 2`, program)
}

func (w *world) id(sql string, args ...any) (id string) {
	w.Helper()
	if err := w.SQL.QueryRow(context.Background(), sql, args...).Scan(&id); err != nil {
		w.Fatal(err)
	}
	return id
}

func TestReattribute_OfUnattributedConversion(t *testing.T) {
	w := newWorld(t)
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	other, _ := w.newParticipant(w.scope, w.program)
	before := w.mustReport(buy("order-1", "ann", click.ID))
	if before.GetAttributed() {
		t.Fatal("attributed")
	}
	if r := w.mustReattribute(before.GetId(), other); r.GetCommission().GetAmountCents() != 3_000 {
		t.Errorf("%v", r)
	}
	w.wantCount(1, `customers c join conversions v on v.id = c.conversion_id where c.participant_id = $1 and c.bound_at = v.occurred_at`, other)
	w.wantCount(1, `customer_payments where payments = 1`)
	w.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000, commission: 3_000})
	w.wantCount(0, `awaited_clicks`)

	// A click that arrives later does not change a person's decision.
	w.storeClick(click)
	if err := w.service.AttributeAwaited(t.Context(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
		t.Fatal(err)
	}
	w.wantCount(1, `conversions where participant_id = $1 and version = 2`, other)
	w.wantCount(1, `audit_log where before = '{"program_id":null,"participant_id":null}'`)
}

func TestReattribute_Errors(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	erased, _ := w.newParticipant(w.scope, w.program)
	w.Exec(`update participants set erased_at = now() where id = $1`, erased)
	live := affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeLive}
	ofLive, _ := w.newParticipant(live, w.newProgram(live))
	stranger := affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeTest}
	ofStranger, _ := w.newParticipant(stranger, w.newProgram(stranger))
	r := w.mustReport(buy("order-1", "ann", w.clickOf(w.participant).ID))
	rows := func() (counts []int) {
		for _, table := range []string{"attribution_decisions", "commissions", "commission_history", "events", "audit_log", "stats_deltas", "customers", "conversions where version = 1"} {
			counts = append(counts, w.count(table))
		}
		return counts
	}
	before := rows()

	for name, tc := range map[string]struct {
		scope        affiliate.Scope
		conversion   string
		to           affiliate.ParticipantID
		want         affiliate.Reason
		wantsInvalid bool
	}{
		"no UUID":                        {w.scope, "order-1", other, affiliate.ReasonNotFound, false},
		"unknown":                        {w.scope, affiliate.NewID[affiliate.Conversion](w.now()).String(), other, affiliate.ReasonNotFound, false},
		"of the other mode":              {live, r.GetId(), ofLive, affiliate.ReasonNotFound, false},
		"of another workspace":           {stranger, r.GetId(), ofStranger, affiliate.ReasonNotFound, false},
		"to its current participant":     {w.scope, r.GetId(), w.participant, affiliate.ReasonValidation, true},
		"to an unknown participant":      {w.scope, r.GetId(), affiliate.NewID[affiliate.Participant](w.now()), affiliate.ReasonValidation, true},
		"to a participant in other mode": {w.scope, r.GetId(), ofLive, affiliate.ReasonValidation, true},
		"to another workspace":           {w.scope, r.GetId(), ofStranger, affiliate.ReasonValidation, true},
		"to an erased participant":       {w.scope, r.GetId(), erased, affiliate.ReasonParticipantErased, false},
		"unknown, to another workspace":  {w.scope, affiliate.NewID[affiliate.Conversion](w.now()).String(), ofStranger, affiliate.ReasonNotFound, false},
	} {
		_, err := w.service.ReattributeConversion(asMerchant(tc.scope), &affiliatev1.ReattributeConversionRequest{
			ConversionId: tc.conversion, ParticipantId: tc.to.String(), Reason: "They called.",
		})
		var refusal *affiliate.Error
		if !errors.As(err, &refusal) || refusal.Reason != tc.want ||
			tc.wantsInvalid && (len(refusal.Violations) != 1 || refusal.Violations[0].Field != "participant_id") {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
	if after := rows(); !slices.Equal(after, before) {
		t.Errorf("before %v, after %v", before, after)
	}
}

// The reattribution of a paid conversion claws the amount back from the first
// participant. The commission keeps its payout id.
func TestReattribute_OfPaidConversionClawsBack(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	before := w.mustReport(buy("order-1", "ann", w.clickOf(w.participant).ID))
	w.pay(before)

	after := w.mustReattribute(before.GetId(), other)
	w.wantCount(1, `commissions where id = $1 and status = 'refunded' and amount_cents = 0 and payout_id is not null and paid_at is not null
		and refunded_at is not null`, before.GetCommission().GetId())
	w.wantCount(1, `ledger_entries where commission_id = $1 and participant_id = $2 and type = 'clawback' and amount_cents = -3000 and created_by = $3`,
		before.GetCommission().GetId(), w.participant, merchant.String())
	w.wantCount(1, `commission_history where commission_id = $1 and from_status = 'paid' and to_status = 'refunded' and reason = 'They called.'`,
		before.GetCommission().GetId())
	w.wantCount(1, `commissions where id = $1 and status = 'pending' and participant_id = $2`, after.GetCommission().GetId(), other)
	w.wantStats(w.participant, "EUR", stats{})
	w.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000, commission: 3_000})
	types, objects := w.Events()
	if want := []string{"conversion.reattributed", "commission.refunded", "commission.created"}; !slices.Equal(types[len(types)-3:], want) {
		t.Fatalf("events: %v", types)
	}
	refund, _ := objects[len(objects)-2]["refund"].(map[string]any)
	if refund["type"] != "full" || refund["reason"] != "reattributed" || refund["clawback_cents"] != 3_000.0 {
		t.Errorf("%v", refund)
	}
}

// pay approves and pays the commission of a conversion.
func (w *world) pay(r *affiliatev1.ReportConversionResponse) {
	w.Helper()
	id, _ := affiliate.ParseID[affiliate.Commission](r.GetCommission().GetId())
	if _, err := commissionservice.Move(w.Context(), stores.Commission(w.Store), affiliate.CommissionTransition{
		Scope: w.scope, Program: w.program, Commission: id, Move: affiliate.MoveOverride, Actor: affiliate.Actor{User: &merchant}, At: w.now(),
		Reason: ptr("They asked."),
	}); err != nil {
		w.Fatal(err)
	}
	payout := affiliate.NewID[affiliate.Payout](w.now())
	if _, err := commissionservice.Move(w.Context(), stores.Commission(w.Store), affiliate.CommissionTransition{
		Scope: w.scope, Program: w.program, Commission: id, Move: affiliate.MovePay, Actor: affiliate.System, At: w.now(),
		PaidAt: w.now(), Payout: &payout,
	}); err != nil {
		w.Fatal(err)
	}
}

func TestReattribute_ToSuspendedParticipant(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	w.Exec(`update participants set status = 'suspended' where id = $1`, other)
	w.Exec(`update programs set rules = jsonb_set(rules, '{hold_period_days}', '0')`)
	before := w.mustReport(purchase("order-1", w.clickOf(w.participant).ID))
	if before.GetCommission().GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED {
		t.Fatalf("%v", before)
	}
	r := w.mustReattribute(before.GetId(), other)
	if r.GetCommission() != nil || !r.GetAttributed() || r.GetAttribution().GetReasonCode() != "PARTICIPANT_NOT_APPROVED" {
		t.Errorf("%v", r)
	}
	w.wantCount(1, `commissions where status = 'rejected'`)
	w.wantCount(1, `commissions`)
	w.wantStats(w.participant, "EUR", stats{})
	w.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000})

	// The next reattribution has no commission to reject.
	w.mustReattribute(before.GetId(), w.participant)
	w.wantCount(1, `commissions where status = 'approved' and participant_id = $1`, w.participant)
	w.wantCount(1, `commissions where status = 'rejected'`)
	w.wantCount(1, `events where type = 'commission.rejected'`)
}

func TestReattribute_ParallelCallsLeaveOneCommission(t *testing.T) {
	for name, customer := range map[string]string{"with a customer": "ann", "without a customer": ""} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			participants := []affiliate.ParticipantID{w.participant}
			for range 4 {
				p, _ := w.newParticipant(w.scope, w.program)
				participants = append(participants, p)
			}
			r := w.mustReport(buy("order-1", customer, w.clickOf(w.participant).ID))
			var wg sync.WaitGroup
			var done atomic.Int64
			for i := range 100 {
				wg.Go(func() {
					switch _, err := w.reattribute(r.GetId(), participants[i%len(participants)]); {
					case err == nil:
						done.Add(1)
					case !refused(err, affiliate.ReasonValidation): // the participant has it already
						t.Error(err)
					}
				})
			}
			wg.Wait()
			n := int(done.Load())
			w.wantCount(1, `conversions where version = $1`, n+1)
			w.wantCount(1, `commissions m join conversions c on c.decision_id = m.decision_id and c.participant_id = m.participant_id where m.status = 'pending'`)
			w.wantCount(n, `commissions where status = 'rejected'`)
			w.wantCount(n+1, `attribution_decisions`)
			w.wantCount(n, `(select distinct supersedes from attribution_decisions where supersedes is not null) x`)
			w.wantCount(n, `audit_log`)
			w.wantCount(n, `events where type = 'conversion.reattributed'`)
			owner := w.id(`select participant_id from conversions`)
			for _, p := range participants {
				want := stats{}
				if p.String() == owner {
					want = stats{conversions: 1, revenue: 10_000, commission: 3_000}
				}
				w.wantStats(p, "EUR", want)
			}
			if customer != "" {
				w.wantCount(1, `customers where participant_id = $1`, owner)
				w.wantCount(1, `customer_payments where payments = 1`)
			}
		})
	}
}

// If a merchant rejects a commission while its conversion is reattributed, the commission
// is rejected once and subtracted from the statistics once.
func TestReattribute_ParallelToReject(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	const conversions = 20
	var wg sync.WaitGroup
	for i := range conversions {
		r := w.mustReport(purchase(fmt.Sprint("order-", i), w.clickOf(w.participant).ID))
		id, _ := affiliate.ParseID[affiliate.Commission](r.GetCommission().GetId())
		wg.Go(func() {
			if _, err := w.reattribute(r.GetId(), other); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			_, err := commissionservice.Move(context.Background(), stores.Commission(w.Store), affiliate.CommissionTransition{
				Scope: w.scope, Program: w.program, Commission: id, Move: affiliate.MoveReject, Actor: affiliate.Actor{User: &merchant}, At: w.now(),
			})
			if err != nil && !refused(err, affiliate.ReasonCommissionTerminal) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(conversions, `commission_history where to_status = 'rejected'`)
	w.wantCount(conversions, `commissions where status = 'pending' and participant_id = $1`, other)
	w.wantStats(w.participant, "EUR", stats{})
	w.wantStats(other, "EUR", stats{conversions: conversions, revenue: 10_000 * conversions, commission: 3_000 * conversions})
}

// If a late click and a person's reattribution run in parallel, in either order, the
// conversion is counted once, for the participant that the person chose.
func TestReattribute_ParallelToLateClick(t *testing.T) {
	w := newWorld(t)
	other, _ := w.newParticipant(w.scope, w.program)
	const conversions = 20
	var wg sync.WaitGroup
	for i := range conversions {
		late := w.lateConversion(fmt.Sprint("order-", i))
		id := w.id(`select id from conversions where click_id = $1`, late.Click)
		wg.Go(func() {
			if _, err := w.reattribute(id, other); err != nil {
				t.Error(err)
			}
		})
		wg.Go(func() {
			if err := w.service.AttributeAwaited(context.Background(), late); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	w.wantCount(conversions, `conversions where participant_id = $1`, other)
	w.wantCount(conversions, `commissions where status = 'pending' and participant_id = $1`, other)
	w.wantCount(0, `commissions where status <> 'rejected' and participant_id <> $1`, other)
	w.wantStats(w.participant, "EUR", stats{})
	w.wantStats(other, "EUR", stats{conversions: conversions, revenue: 10_000 * conversions, commission: 3_000 * conversions})
	rows, _ := w.SQL.Query(t.Context(), `select count(*) from attribution_decisions group by conversion_id`)
	counts, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil || len(counts) != conversions || slices.Min(counts) < 2 || slices.Max(counts) > 3 {
		t.Errorf("%v, %v", counts, err)
	}
}
