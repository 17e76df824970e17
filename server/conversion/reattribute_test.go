package conversion_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// reattribute moves a conversion to another participant, as the shop's owner.
func (f *fixture) reattribute(conversion string, p pgtest.Participant) (*affiliatev1.ReportConversionResponse, error) {
	return f.service.ReattributeConversion(f.asOwner(), &affiliatev1.ReattributeConversionRequest{
		ConversionId: conversion, ParticipantId: p.ID.String(), Reason: "They called.",
	})
}

func (f *fixture) mustReattribute(conversion string, p pgtest.Participant) *affiliatev1.ReportConversionResponse {
	f.Helper()
	r, err := f.reattribute(conversion, p)
	if err != nil {
		f.Fatalf("ReattributeConversion: %v", err)
	}
	return r
}

// conversionID returns the id of a conversion by its external id.
func (f *fixture) conversionID(external string) string {
	f.Helper()
	ids := f.Texts(`select id::text from conversions where external_transaction_id = $1`, external)
	if len(ids) != 1 {
		f.Fatalf("%d conversions have the external id %s, want 1", len(ids), external)
	}
	return ids[0]
}

// wantLastEvents compares the types of the last events and returns their objects.
func (f *fixture) wantLastEvents(want ...string) []map[string]any {
	f.Helper()
	types, objects := f.Events()
	start := max(len(types)-len(want), 0)
	if !slices.Equal(types[start:], want) {
		f.Fatalf("the events are %q, want %q at the end", types, want)
	}
	return objects[start:]
}

func TestReattribute_MovesAllEffects(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	f.mustReport(purchaseBy("ann", "order-0", f.NewClick(f.pat).ID))
	click := f.NewClick(f.pat)
	before := f.mustReport(purchaseBy("ann", "order-1", click.ID))
	f.setRules(func(r *program.Rules) { r.RateBps = new(int64(1000)) })

	r := f.mustReattribute(before.GetId(), other)
	servertest.WantFields(t, "response", r, &affiliatev1.ReportConversionResponse{
		Id: before.GetId(), ExternalTransactionId: "order-1", AmountCents: 10_000, Currency: new("EUR"), CreatedAt: before.GetCreatedAt(),
		Attributed: true,
		Attribution: &affiliatev1.ConversionAttribution{
			Method: new("manual"), ReasonCode: "MANUALLY_REASSIGNED", ClickId: new(click.ID.String()),
			ProgramId: new(f.Program.String()), ParticipantId: new(other.ID.String()),
		},
		Commission: &affiliatev1.ConversionCommission{AmountCents: 1_000, Status: pending},
	})
	decision, commission := r.GetAttribution().GetDecisionId(), r.GetCommission().GetId()
	oldDecision, oldCommission := before.GetAttribution().GetDecisionId(), before.GetCommission().GetId()
	if decision == oldDecision || commission == oldCommission || r.GetAttribution().GetExplanation() == "" {
		t.Errorf("ReattributeConversion returned %v, want a new decision with an explanation and a new commission", r)
	}

	f.wantRows(1, `conversions where id = $1 and attributed and participant_id = $2 and program_id = $3 and reason_code = 'MANUALLY_REASSIGNED'
		and version = 2 and link_id is null and recurring_index = 2 and decision_id = $4`, r.GetId(), other.ID, f.Program, decision)
	f.wantRows(1, `attribution_decisions where id = $1 and supersedes = $2 and decided_by = $3 and method = 'manual' and participant_id = $4`,
		decision, oldDecision, f.Owner, other.ID)
	f.wantRows(1, `commissions where id = $1 and status = 'rejected' and rejection_reason = 'reattributed' and version = 2`, oldCommission)
	f.wantRows(1, `commission_history where commission_id = $1 and to_status = 'rejected' and reason = 'They called.' and actor = $2`,
		oldCommission, f.Owner.String())
	f.wantRows(1, `commissions where id = $1 and participant_id = $2 and partner_id = $3 and recurring_index = 2
		and (rule_snapshot->>'version')::int = 5 and hold_until > created_at + interval '29 days' and decision_id = $4`,
		commission, other.ID, other.Partner, decision)
	f.wantRows(1, `commission_history where commission_id = $1 and to_status = 'pending' and actor = $2`, commission, f.Owner.String())
	f.wantRows(1, `audit_log where action = 'conversion.reattribute' and resource_id = $1::uuid and actor = $2 and mode = 'test'
		and before = jsonb_build_object('program_id', $3::text, 'participant_id', $4::text)
		and after = jsonb_build_object('program_id', $3::text, 'participant_id', $5::text, 'reason', 'They called.')`,
		r.GetId(), f.Owner.String(), f.Program.String(), f.pat.ID.String(), other.ID.String())
	f.wantRows(1, `audit_log`)
	f.wantRows(1, `customers c join conversions v on v.external_transaction_id = 'order-0'
		where c.participant_id = $1 and c.bound_at = v.occurred_at and c.window_ends_at = v.occurred_at + interval '720 hours'`, other.ID)
	f.wantRows(1, `customer_payments where payments = 2`)
	f.wantStats(f.pat, "EUR", stats{conversions: 1, revenue: 10_000, commission: 3_000})
	f.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000, commission: 1_000})
	f.wantRows(1, `(select link_id from stats_deltas where link_id is not null group by link_id having sum(conversions) = 1) x`)

	objects := f.wantLastEvents("conversion.reattributed", "commission.rejected", "commission.created")
	f.wantAttributes("conversion.reattributed", objects[0], pgtest.Row{"version": 2, "participant_id": other.ID.String()})
	f.wantAttributes("commission.rejected", objects[1], pgtest.Row{"id": oldCommission, "status": "rejected"})
	f.wantAttributes("commission.created", objects[2], pgtest.Row{"id": commission})

	// After a move back to the first participant, rejected commissions stay rejected.
	f.mustReattribute(before.GetId(), f.pat)
	f.wantRows(2, `commissions where conversion_id = $1 and status = 'rejected'`, r.GetId())
	f.wantRows(1, `commissions where conversion_id = $1 and status = 'pending' and participant_id = $2`, r.GetId(), f.pat.ID)
	f.wantStats(other, "EUR", stats{})
	f.wantStats(f.pat, "EUR", stats{conversions: 2, revenue: 20_000, commission: 4_000})
}

func TestReattribute_ToOtherProgrammeMovesPayment(t *testing.T) {
	f := newFixture(t)
	program := f.NewProgram(f.Scope, pgtest.Rules(), pgtest.Row{"attribution_window_days": 7})
	other := f.NewParticipant(f.Scope, program, f.NewPartner("Olga"))
	first := f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID))
	second := f.mustReport(purchaseBy("ann", "order-2", f.NewClick(f.pat).ID))

	moved := f.mustReattribute(first.GetId(), other)
	if got := moved.GetAttribution().GetProgramId(); got != program.String() {
		t.Errorf("the conversion belongs to the programme %s, want %s", got, program)
	}
	const payment = `customer_payments p join conversions c on c.external_transaction_id = $1
		where p.program_id = $2 and p.payments = 1 and p.first_at = c.occurred_at`
	f.wantRows(1, payment, "order-2", f.Program)
	f.wantRows(1, payment, "order-1", program)
	f.wantRows(1, `customers where program_id = $1 and participant_id = $2 and window_ends_at = bound_at + interval '168 hours'`, program, other.ID)
	f.wantRows(1, `conversions where external_transaction_id = 'order-1' and recurring_index = 1`)

	moved = f.mustReattribute(second.GetId(), other)
	f.wantRows(1, `commissions where id = $1 and recurring_index = 2`, moved.GetCommission().GetId())
	f.wantRows(0, `customer_payments where program_id = $1`, f.Program)
	f.wantRows(1, `customer_payments where program_id = $1 and payments = 2`, program)
}

func TestReattribute_OfUnattributedConversion(t *testing.T) {
	f := newFixture(t)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	other := f.Join("Olga")
	before := f.reportUnattributed(purchaseBy("ann", "order-1", click.ID))
	if got := f.mustReattribute(before.GetId(), other).GetCommission().GetAmountCents(); got != 3_000 {
		t.Errorf("the reattributed conversion earns %d, want 3000", got)
	}
	f.wantRows(1, `customers c join conversions v on v.id = c.conversion_id where c.participant_id = $1 and c.bound_at = v.occurred_at`, other.ID)
	f.wantRows(1, `customer_payments where payments = 1`)
	f.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000, commission: 3_000})
	f.wantRows(0, `awaited_clicks`)

	// A click that arrives later does not change a user's decision.
	f.attribute(f.storeLate(click))
	f.wantRows(1, `conversions where participant_id = $1 and version = 2`, other.ID)
	f.wantRows(1, `audit_log where before = '{"program_id":null,"participant_id":null}'`)
}

func TestReattribute_Errors(t *testing.T) {
	f := newFixture(t)
	live, elsewhere := f.InOtherMode(pgtest.Rules()), f.NewShop(affiliate.ModeTest, pgtest.Rules())
	other, erased := f.Join("Olga"), f.Join("Eve", pgtest.Row{"erased_at": f.clock.Now()})
	inLive, inElsewhere := live.Join("Lia"), elsewhere.Join("Pia")
	unknown := pgtest.Participant{ID: affiliate.NewID[affiliate.ParticipantID](f.clock.Now())}
	recorded := f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID)).GetId()
	unknownConversion := affiliate.NewID[affiliate.ConversionID](f.clock.Now()).String()
	tables := []string{
		"attribution_decisions", "commissions", "commission_history", "events", "audit_log", "stats_deltas", "customers", "conversions where version = 1",
	}
	before := f.countRows(tables)

	for name, tc := range map[string]struct {
		shop        *pgtest.Shop
		conversion  string
		participant pgtest.Participant
		want        affiliate.Reason
		field       string
	}{
		"conversion id is no UUID":           {f.Shop, "order-1", other, affiliate.ReasonNotFound, ""},
		"unknown conversion":                 {f.Shop, unknownConversion, other, affiliate.ReasonNotFound, ""},
		"conversion of the other mode":       {live, recorded, inLive, affiliate.ReasonNotFound, ""},
		"conversion of another workspace":    {elsewhere, recorded, inElsewhere, affiliate.ReasonNotFound, ""},
		"current participant":                {f.Shop, recorded, f.pat, affiliate.ReasonValidation, "participant_id"},
		"unknown participant":                {f.Shop, recorded, unknown, affiliate.ReasonValidation, "participant_id"},
		"participant of the other mode":      {f.Shop, recorded, inLive, affiliate.ReasonValidation, "participant_id"},
		"participant of another workspace":   {f.Shop, recorded, inElsewhere, affiliate.ReasonValidation, "participant_id"},
		"erased participant":                 {f.Shop, recorded, erased, affiliate.ReasonParticipantErased, ""},
		"unknown conversion and participant": {f.Shop, unknownConversion, inElsewhere, affiliate.ReasonNotFound, ""},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := servertest.AsMember(t, tc.shop.Scope, tc.shop.Owner, affiliate.RoleOwner)
			_, err := f.service.ReattributeConversion(ctx, &affiliatev1.ReattributeConversionRequest{
				ConversionId: tc.conversion, ParticipantId: tc.participant.ID.String(), Reason: "They called.",
			})
			pgtest.RequireRefusal(t, err, tc.want, tc.field)
		})
	}
	if after := f.countRows(tables); !slices.Equal(after, before) {
		t.Errorf("after rejected calls, the numbers of rows of %q are %v, want %v", tables, after, before)
	}
}

// countRows returns the number of rows that each of the from clauses selects.
func (f *fixture) countRows(fromClauses []string) (counts []int) {
	f.Helper()
	for _, clause := range fromClauses {
		counts = append(counts, f.Count(`select count(*) from `+clause))
	}
	return counts
}

// The reattribution of a paid conversion claws the amount back from the first
// participant. The commission keeps its payout id.
func TestReattribute_OfPaidConversionClawsBack(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	before := f.mustReport(purchaseBy("ann", "order-1", f.NewClick(f.pat).ID))
	f.pay(before)

	after := f.mustReattribute(before.GetId(), other)
	f.wantRows(1, `commissions where id = $1 and status = 'refunded' and amount_cents = 0 and payout_id is not null and paid_at is not null
		and refunded_at is not null`, before.GetCommission().GetId())
	f.wantRows(1, `ledger_entries where commission_id = $1 and participant_id = $2 and type = 'clawback' and amount_cents = -3000 and created_by = $3`,
		before.GetCommission().GetId(), f.pat.ID, f.Owner.String())
	f.wantRows(1, `commission_history where commission_id = $1 and from_status = 'paid' and to_status = 'refunded' and reason = 'They called.'`,
		before.GetCommission().GetId())
	f.wantRows(1, `commissions where id = $1 and status = 'pending' and participant_id = $2`, after.GetCommission().GetId(), other.ID)
	f.wantStats(f.pat, "EUR", stats{})
	f.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000, commission: 3_000})
	objects := f.wantLastEvents("conversion.reattributed", "commission.refunded", "commission.created")
	refund, _ := objects[1]["refund"].(map[string]any)
	f.wantAttributes("refund in commission.refunded", refund, pgtest.Row{"type": "full", "reason": "reattributed", "clawback_cents": 3_000})
}

func TestReattribute_ToSuspendedParticipant(t *testing.T) {
	f := newFixture(t, pgtest.Rules(withoutHoldPeriod))
	other := f.Join("Olga", pgtest.Row{"status": "suspended"})
	before := f.mustReport(purchase("order-1", f.NewClick(f.pat).ID))
	if got := before.GetCommission().GetStatus(); got != approved {
		t.Fatalf("the commission is %s, want %s", got, approved)
	}
	r := f.mustReattribute(before.GetId(), other)
	f.wantAttribution(r, "PARTICIPANT_NOT_APPROVED", other)
	if r.GetCommission() != nil || !r.GetAttributed() {
		t.Errorf("ReattributeConversion returned %v, want an attribution without a commission", r)
	}
	f.wantRows(1, `commissions where status = 'rejected'`)
	f.wantRows(1, `commissions`)
	f.wantStats(f.pat, "EUR", stats{})
	f.wantStats(other, "EUR", stats{conversions: 1, revenue: 10_000})

	// The next reattribution has no commission to reject.
	f.mustReattribute(before.GetId(), f.pat)
	f.wantRows(1, `commissions where status = 'approved' and participant_id = $1`, f.pat.ID)
	f.wantRows(1, `commissions where status = 'rejected'`)
	f.wantRows(1, `events where type = 'commission.rejected'`)
}

func TestReattribute_ParallelCallsLeaveOneCommission(t *testing.T) {
	pgtest.Slow(t)
	for name, customer := range map[string]string{"with a customer": "ann", "without a customer": ""} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			participants := []pgtest.Participant{f.pat}
			for range 4 {
				participants = append(participants, f.Join("Olga"))
			}
			r := f.mustReport(purchaseBy(customer, "order-1", f.NewClick(f.pat).ID))
			const attempts = 100
			calls := f.parallelCalls()
			for i := range attempts {
				calls.start("reattribute", func() error {
					_, err := f.reattribute(r.GetId(), participants[i%len(participants)])
					return err
				})
			}
			// A reattribution to the current participant is rejected. The first
			// reattribution to each of the other participants succeeds.
			results := calls.wait()
			succeeded, rejectedCalls := results["reattribute"], results["reattribute VALIDATION_ERROR"]
			if succeeded+rejectedCalls != attempts || succeeded < len(participants)-1 {
				t.Errorf("the calls had the results %v, want at least %d reattributions and VALIDATION_ERROR for the others", results, len(participants)-1)
			}
			f.wantRows(1, `conversions where version = $1`, succeeded+1)
			f.wantRows(1, `commissions m join conversions c on c.decision_id = m.decision_id and c.participant_id = m.participant_id
				where m.status = 'pending'`)
			f.wantRows(succeeded, `commissions where status = 'rejected'`)
			f.wantRows(succeeded+1, `attribution_decisions`)
			f.wantRows(succeeded, `(select distinct supersedes from attribution_decisions where supersedes is not null) x`)
			f.wantRows(succeeded, `audit_log`)
			f.wantRows(succeeded, `events where type = 'conversion.reattributed'`)
			owner := f.Texts(`select participant_id::text from conversions`)[0]
			for _, p := range participants {
				want := stats{}
				if p.ID.String() == owner {
					want = stats{conversions: 1, revenue: 10_000, commission: 3_000}
				}
				f.wantStats(p, "EUR", want)
			}
			if customer != "" {
				f.wantRows(1, `customers where participant_id = $1`, owner)
				f.wantRows(1, `customer_payments where payments = 1`)
			}
		})
	}
}

// If a merchant rejects a commission while its conversion is reattributed, the commission
// is rejected once and subtracted from the statistics once.
func TestReattribute_ParallelToReject(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	const conversions = 20
	calls := f.parallelCalls()
	for i := range conversions {
		r := f.mustReport(purchase(fmt.Sprint("order-", i), f.NewClick(f.pat).ID))
		reject := func() error { return f.moveCommission(r, commission.MoveReject) }
		// Half of the rejections start after the reattribution, so that both orders occur.
		rejectLater := i%2 == 0
		if !rejectLater {
			calls.start("reject", reject)
		}
		calls.start("reattribute", func() error {
			_, err := f.reattribute(r.GetId(), other)
			if rejectLater {
				calls.start("reject", reject)
			}
			return err
		})
	}
	results := calls.wait()
	rejectedFirst, rejectedLate := results["reject"], results["reject COMMISSION_TERMINAL"]
	if results["reattribute"] != conversions || rejectedFirst+rejectedLate != conversions || rejectedFirst == 0 || rejectedLate == 0 {
		t.Errorf("the calls had the results %v, want %d reattributions and %d rejections, some with COMMISSION_TERMINAL",
			results, conversions, conversions)
	}
	f.wantRows(conversions, `commission_history where to_status = 'rejected'`)
	f.wantRows(conversions, `commissions where status = 'pending' and participant_id = $1`, other.ID)
	f.wantStats(f.pat, "EUR", stats{})
	f.wantStats(other, "EUR", stats{conversions: conversions, revenue: 10_000 * conversions, commission: 3_000 * conversions})
}

// The attribution to a late click and a user's reattribution of the same conversion run
// in parallel. Whichever is first, the conversion is counted once, for the participant
// that the user chose.
func TestReattribute_ParallelToLateClick(t *testing.T) {
	f := newFixture(t)
	other := f.Join("Olga")
	const conversions = 20
	calls := f.parallelCalls()
	for i := range conversions {
		external := fmt.Sprint("order-", i)
		job := f.lateConversion(external)
		id := f.conversionID(external)
		reattribute := func() error {
			_, err := f.reattribute(id, other)
			return err
		}
		// Half of the reattributions start after the late attribution, so that both orders
		// occur.
		reattributeLater := i%2 == 0
		if !reattributeLater {
			calls.start("reattribute", reattribute)
		}
		calls.start("attribute", func() error {
			err := f.service.AttributeAwaited(t.Context(), job)
			if reattributeLater {
				calls.start("reattribute", reattribute)
			}
			return err
		})
	}
	calls.want(map[string]int{"reattribute": conversions, "attribute": conversions})
	// The report and the reattribution each make one decision about a conversion. The
	// late attribution makes a third decision only if it runs before the reattribution.
	const countByDecisions = `select count(*) from (select from attribution_decisions group by conversion_id having count(*) = $1) x`
	two, three := f.Count(countByDecisions, 2), f.Count(countByDecisions, 3)
	if two+three != conversions || two == 0 || three == 0 {
		t.Errorf("%d conversions have 2 decisions and %d have 3, want at least one of each and %d in all", two, three, conversions)
	}
	f.wantRows(conversions, `conversions where participant_id = $1`, other.ID)
	f.wantRows(conversions, `commissions where status = 'pending' and participant_id = $1`, other.ID)
	f.wantRows(0, `commissions where status <> 'rejected' and participant_id <> $1`, other.ID)
	f.wantStats(f.pat, "EUR", stats{})
	f.wantStats(other, "EUR", stats{conversions: conversions, revenue: 10_000 * conversions, commission: 3_000 * conversions})
}
