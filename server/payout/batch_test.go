package payout_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPreviewPayouts_ShowsPayoutsAndExclusions(t *testing.T) {
	f := newFixture(t, pgtest.Row{"min_payout_cents": 100})
	berta, anna, belowMinimum, debtor := f.partner("Berta"), f.partner("anna"), f.partner("Cora"), f.partner("Dora")
	f.addCommission(berta, 60)
	f.addCommission(berta, 50)
	f.addCommission(berta, 1000, inCurrency("USD"))
	f.addCommission(anna, 70)
	f.addEntry(anna, ledger.EntryBonus, 30)
	f.addCommission(belowMinimum, 99)
	f.addCommission(debtor, 5)
	f.addEntry(debtor, ledger.EntryAdjustment, -50)
	f.addEntry(f.partner("Bonus"), ledger.EntryBonus, 100)
	f.addCommission(f.Join("Emma"), 500) // has no payout method
	f.addCommission(f.partner("Fred", pgtest.Row{"status": "suspended"}), 500)
	f.addCommission(f.partner("Gone", pgtest.Row{"erased_at": f.Now()}), 500)
	// None of the following commissions is payable.
	waiting := f.partner("Waiting")
	f.flag(f.addCommission(waiting, 500))
	if err := f.moveCommission(f.addCommission(waiting, 500), commission.MoveDispute, commission.Transition{}); err != nil {
		t.Fatal(err)
	}
	f.Exec(`update commissions set hold_until = $2 where id = $1`, f.addCommission(waiting, 500), f.Now().Add(time.Hour))
	f.partner("Idle")

	format := func(p *affiliatev1.PayoutPreview) string {
		var lines []string
		for _, l := range p.Data {
			lines = append(lines, fmt.Sprintf("%s %d×%d%+d=%d %s %s", l.PartnerName, l.CommissionCount, l.CommissionCents, l.AdjustmentCents, l.AmountCents,
				l.Currency, strings.TrimPrefix(l.ExcludedBecause.String(), "PAYOUT_EXCLUSION_")))
		}
		return strings.Join(lines, "\n")
	}
	want := `anna 1×70+30=100 EUR UNSPECIFIED
Berta 2×110+0=110 EUR UNSPECIFIED
Berta 1×1000+0=1000 USD UNSPECIFIED
Bonus 0×0+100=100 EUR UNSPECIFIED
Cora 1×99+0=99 EUR BELOW_MINIMUM
Dora 1×5-50=-45 EUR NEGATIVE_BALANCE
Emma 1×500+0=500 EUR NO_PAYOUT_METHOD
Fred 1×500+0=500 EUR PARTICIPANT_NOT_APPROVED
Gone 1×500+0=500 EUR PARTICIPANT_NOT_APPROVED`
	p := f.preview()
	if got := format(p); got != want || p.Total != 9 {
		t.Errorf("PreviewPayouts returned the total %d and\n%s\nwant 9 and\n%s", p.Total, got, want)
	}
	totals := &affiliatev1.PayoutPreview{Totals: []*affiliatev1.PayoutTotal{
		{Currency: "EUR", PayoutCount: 3, AmountCents: 310}, {Currency: "USD", PayoutCount: 1, AmountCents: 1000},
	}}
	servertest.WantFields(t, "PreviewPayouts", p, totals)
	for page, wantNames := range map[int32]string{2: "Cora Dora Emma Fred", 9: ""} {
		got, err := f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{Page: &page, PageSize: proto.Int32(4)})
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, line := range got.Data {
			names = append(names, line.PartnerName)
		}
		if joined := strings.Join(names, " "); joined != wantNames || got.Total != 9 {
			t.Errorf("page %d of PreviewPayouts has the total %d and the partners %q, want 9 and %q", page, got.Total, joined, wantNames)
		}
		servertest.WantFields(t, "PreviewPayouts", got, totals)
	}
	for _, id := range []affiliate.ProgramID{f.otherShop().Program, affiliate.NewID[affiliate.ProgramID](f.Now())} {
		_, err := f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{ProgramIds: []string{id.String()}})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	f.clock.Advance(time.Hour)
	if got, line := format(f.preview()), "Waiting 1×500+0=500"; !strings.Contains(got, line) {
		t.Errorf("PreviewPayouts at the end of the hold period returned\n%s\nwant a line with %s", got, line)
	}
	f.checkConsistency()
}

func TestPreviewPayouts_AppliesCutoffAndPayoutTerm(t *testing.T) {
	f := newFixture(t, pgtest.Row{"payout_term_days": 2})
	p := f.partner("Anna")
	f.addCommission(p, 100) // approved on 10 March at 12:00
	f.clock.Advance(72 * time.Hour)
	for cutoff, want := range map[string]int{
		"2026-03-12T11:59:59.999Z": 0, "2026-03-12T12:00:00Z": 1, "2026-03-12": 1, "2026-03-11": 0, "2030-01-01": 1, "": 1,
	} {
		got, err := f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{Cutoff: &cutoff})
		if err != nil || len(got.Data) != want {
			t.Errorf("PreviewPayouts with the cutoff %q returned %d payouts, error %v, want %d", cutoff, len(got.GetData()), err, want)
		}
		if got.GetCutoff().AsTime().After(f.Now()) {
			t.Errorf("PreviewPayouts with the cutoff %q returned the cutoff %s, which is in the future", cutoff, got.GetCutoff().AsTime())
		}
	}
}

func TestCreatePayoutBatch_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	p := f.partner("Anna")
	f.addCommission(p, 100)
	for name, ctx := range map[string]context.Context{
		"no key": f.asFinance(), "empty key": withKey(f.asFinance(), ""), "key with a space": withKey(f.asFinance(), "a b"),
		"long key": withKey(f.asFinance(), strings.Repeat("x", 81)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := f.service.CreatePayoutBatch(ctx, &affiliatev1.CreatePayoutBatchRequest{})
			pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyRequired)
		})
	}
	create := func(key string, wantReplayed bool) *affiliatev1.PayoutBatch {
		t.Helper()
		ctx, transport := servertest.WithTransport(f.asFinance(), key)
		b, err := f.service.CreatePayoutBatch(ctx, &affiliatev1.CreatePayoutBatchRequest{})
		if err != nil {
			t.Fatalf("CreatePayoutBatch with the key %s: %v", key, err)
		}
		if replayed := transport.Replayed(); replayed != wantReplayed {
			t.Errorf("CreatePayoutBatch with the key %s was replayed: %t, want %t", key, replayed, wantReplayed)
		}
		return b
	}
	first := create("key-1", false)
	f.clock.Advance(time.Second)
	servertest.WantMessage(t, "CreatePayoutBatch with the same key", create("key-1", true), first)
	_, err := f.service.CreatePayoutBatch(withKey(f.asFinance(), "key-1"), &affiliatev1.CreatePayoutBatchRequest{Cutoff: new("2026-01-01")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	for range 2 { // a refused request does not store its key
		_, err = f.service.CreatePayoutBatch(withKey(f.asFinance(), "key-2"), &affiliatev1.CreatePayoutBatchRequest{})
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
	}
	f.addCommission(p, 1)
	create("key-2", false)
}

func TestCreatePayoutBatch_CreatesDraftPayouts(t *testing.T) {
	f := newFixture(t)
	p := f.partner("Anna")
	one, two := f.addCommission(p, 100), f.addCommission(p, 200)
	b := f.mustCreateBatch()
	servertest.WantFields(t, "CreatePayoutBatch", b, &affiliatev1.PayoutBatch{
		Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_DRAFT, PayoutCount: 1, ByStatus: &affiliatev1.PayoutCounts{Draft: 1},
		Totals: []*affiliatev1.PayoutTotal{{Currency: "EUR", PayoutCount: 1, AmountCents: 300}}, CreatedBy: f.Owner.String(),
	})
	payout := f.onlyPayout(b)
	servertest.WantFields(t, "GetPayout", payout, &affiliatev1.PayoutDetail{
		AmountCents: 300, CommissionCount: 2, AccountHint: new("A***@example.com"), TaxFormStatus: "none", PartnerName: "Anna",
	})
	if payout.PeriodStart == nil || len(payout.Commissions) != 2 {
		t.Errorf("GetPayout returned period_start = %v and %d commissions, want a time and 2", payout.PeriodStart, len(payout.Commissions))
	}
	object, _ := f.LastEvent(affiliate.EventPayoutCreated)
	ids := fmt.Sprint(object["commission_ids"])
	if object["id"] != payout.Id || !strings.Contains(ids, one.String()) || !strings.Contains(ids, two.String()) {
		t.Errorf("the event is about the payout %v with the commissions %s, want %s with %s and %s", object["id"], ids, payout.Id, one, two)
	}
	for field, want := range map[string]any{"status": "draft", "method": "paypal", "amount_cents": 300.0} {
		if object[field] != want {
			t.Errorf("the event has %s = %v, want %v", field, object[field], want)
		}
	}
	if got, want := f.AuditActions("payout_batch", b.Id), []string{"payout_batch.create"}; !slices.Equal(got, want) {
		t.Errorf("the audit log of the batch has %q, want %q", got, want)
	}
	f.checkConsistency()
}

func TestCreatePayoutBatch_ReturnsTheCommittedBatch(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	// The first commit fails with a serialization failure, so that the transaction is run
	// again. A rollback does not change a sequence.
	f.Exec(`
		create sequence runs;
		create function fail_first_run() returns trigger language plpgsql security definer as $$
		begin
			if nextval('runs') = 1 then
				raise exception using errcode = 'serialization_failure';
			end if;
			return null;
		end $$;
		create constraint trigger fail_first_run after insert on payout_batches deferrable initially deferred
			for each row execute function fail_first_run()`)
	create := func() *affiliatev1.PayoutBatch {
		t.Helper()
		b, err := f.service.CreatePayoutBatch(withKey(f.asFinance(), "key"), &affiliatev1.CreatePayoutBatchRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	first := create()
	f.WantCount(2, "runs of the transaction", `select last_value from runs`)
	servertest.WantMessage(t, "GetPayoutBatch", f.getBatch(first.Id), first)
	servertest.WantMessage(t, "CreatePayoutBatch with the same key", create(), first)
	f.checkConsistency()
}

// When batches are created in parallel, each commission is in exactly one of them.
func TestCreatePayoutBatch_InParallelTakesEachCommissionOnce(t *testing.T) {
	f := newFixture(t)
	for i := range 12 {
		p := f.partner(fmt.Sprint("P", i))
		for range 3 {
			f.addCommission(p, 100)
		}
		f.addEntry(p, ledger.EntryBonus, 7)
	}
	calls := newOutcomes("create")
	runParallel(8, func(int) {
		_, err := f.createBatch()
		calls.record(t, "create", err)
	})
	calls.requireComplete(t)
	f.WantCount(0, "commissions in no batch", `select count(*) from commissions where payout_id is null`)
	f.WantCount(12*307, "sum of the payouts", `select sum(amount_cents)::bigint from payouts`)
	f.checkConsistency()
}

// Parallel requests with the same idempotency key return the same response.
func TestCreatePayoutBatch_SameKeyInParallelCreatesOne(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	responses := make([]*affiliatev1.PayoutBatch, 6)
	runParallel(len(responses), func(i int) {
		b, err := f.service.CreatePayoutBatch(withKey(f.asFinance(), "same"), &affiliatev1.CreatePayoutBatchRequest{})
		if err != nil {
			t.Errorf("CreatePayoutBatch: %v", err)
		}
		responses[i] = b
	})
	for _, b := range responses[1:] {
		servertest.WantMessage(t, "a parallel CreatePayoutBatch", b, responses[0])
	}
	f.WantCount(1, "batches", `select count(*) from payout_batches`)
}

func TestConfirmPayoutBatch_ChecksAgainWhatIsPayable(t *testing.T) {
	f := newFixture(t, pgtest.Row{"min_payout_cents": 100})
	changed, reduced, belowMinimum, suspended, debtor, withBonus := f.partner("changed"), f.partner("reduced"), f.partner("below minimum"),
		f.partner("suspended"), f.partner("debtor"), f.partner("with bonus")
	f.addCommission(changed, 100)
	rejected, refunded, flagged, disputed := f.addCommission(changed, 1000), f.addCommission(changed, 1000), f.addCommission(changed, 1000), f.addCommission(changed, 1000)
	half := f.addCommission(reduced, 400)
	tooSmall := f.addCommission(belowMinimum, 400)
	f.addCommission(suspended, 400)
	f.addCommission(debtor, 400)
	f.addCommission(withBonus, 400)
	b := f.mustCreateBatch()
	if got := b.Totals[0].AmountCents; got != 4100+5*400 {
		t.Fatalf("CreatePayoutBatch returned the total %d, want %d", got, 4100+5*400)
	}

	if err := f.reject(rejected); err != nil {
		t.Fatal(err)
	}
	f.mustRefund(refunded)
	f.flag(flagged)
	f.mustRefundPart(half, 200)
	f.mustRefundPart(tooSmall, 99)
	f.Exec(`update commissions set dispute_status = 'open' where id = $1`, disputed)
	f.Exec(`update participants set status = 'suspended' where id = $1`, suspended.ID)
	f.addEntry(debtor, ledger.EntryAdjustment, -500)
	f.addEntry(withBonus, ledger.EntryBonus, 50)
	f.clock.Advance(time.Minute)
	b = f.confirm(b)
	servertest.WantFields(t, "ConfirmPayoutBatch", b, &affiliatev1.PayoutBatch{
		Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED, ByStatus: &affiliatev1.PayoutCounts{Pending: 3, Canceled: 3},
		Totals:      []*affiliatev1.PayoutTotal{{Currency: "EUR", PayoutCount: 3, AmountCents: 100 + 200 + 400}},
		ConfirmedBy: new(f.Owner.String()), ConfirmedAt: timestamppb.New(f.Now()),
	})
	got := map[string]string{}
	for _, p := range f.payouts(b) {
		got[p.PartnerName] = fmt.Sprint(p.AmountCents, " ", p.CommissionCount, " ", p.AdjustmentCents, " ", strings.TrimPrefix(p.Status.String(), "PAYOUT_STATUS_"))
		if pending := p.Status == affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING; (p.InitiatedAt != nil) != pending {
			t.Errorf("the payout of %s has initiated_at = %v and the status %v, want a time only if it is pending", p.PartnerName, p.InitiatedAt, p.Status)
		}
	}
	want := map[string]string{ // amount, number of commissions, adjustment and status
		"changed": "100 1 0 PENDING", "reduced": "200 1 0 PENDING", "with bonus": "400 1 0 PENDING",
		"below minimum": "99 1 0 CANCELED", "suspended": "400 1 0 CANCELED", "debtor": "400 1 0 CANCELED",
	}
	if !maps.Equal(got, want) {
		t.Errorf("ListPayouts returned %v\nwant %v", got, want)
	}
	for id, inPayout := range map[affiliate.CommissionID]bool{flagged: false, disputed: false, tooSmall: false, half: true} {
		f.wantInPayout(inPayout, id)
	}
	f.WantCount(3, "events of canceled payouts", `select count(*) from events where type = 'payout.canceled'`)
	_, err := f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
	requireStateRefusal(t, err, "confirmed")
	f.checkConsistency()
	f.Exec(`update participants set status = 'approved'`)
	if lines := f.preview().Data; len(lines) != 4 {
		t.Errorf("PreviewPayouts returned %v, want a line for each of the 3 canceled payouts and one for the bonus", lines)
	}
}

func TestConfirmPayoutBatch_WithoutPayableCommissionsIsCanceled(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	b := f.mustCreateBatch()
	f.Exec(`update commissions set dispute_status = 'open'`)
	b = f.confirm(b)
	servertest.WantFields(t, "ConfirmPayoutBatch", b, &affiliatev1.PayoutBatch{
		Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED, CompletedAt: timestamppb.New(f.Now()),
	})
	if len(b.Totals) != 0 {
		t.Errorf("ConfirmPayoutBatch returned the totals %v, want none", b.Totals)
	}
	f.checkConsistency()
}

func TestCancelPayoutBatch_ReleasesItsCommissions(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.partner("Anna"), f.partner("Berta")
	f.addCommission(anna, 100)
	f.addCommission(berta, 200)
	f.addEntry(anna, ledger.EntryBonus, 5)
	cancel := func(b *affiliatev1.PayoutBatch) (*affiliatev1.PayoutBatch, error) {
		return f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
	}
	for _, confirmed := range []bool{false, true} {
		b := f.mustCreateBatch()
		if confirmed {
			f.confirm(b)
		}
		canceled, err := cancel(b)
		if err != nil {
			t.Fatal(err)
		}
		servertest.WantFields(t, "CancelPayoutBatch", canceled, &affiliatev1.PayoutBatch{
			Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED, ByStatus: &affiliatev1.PayoutCounts{Canceled: 2},
		})
		_, err = cancel(b)
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
		f.checkConsistency()
	}
	b := f.mustCreateBatch()
	f.confirm(b)
	f.mustMove(f.payouts(b)[0].Id, "paid")
	_, err := cancel(b)
	requireStateRefusal(t, err, "processing")
	f.checkConsistency()
}

func TestPayouts_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	b := f.mustCreateBatch()
	id := f.onlyPayout(b).Id
	for name, stranger := range map[string]*fixture{
		"another workspace": f.otherShop(),
		"the other mode":    {f.InOtherMode(), f.service, f.keys, f.clock},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := stranger.asFinance()
			_, err := f.service.GetPayoutBatch(ctx, &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.ConfirmPayoutBatch(ctx, &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.CancelPayoutBatch(ctx, &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = stranger.export(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			_, err = f.service.GetPayout(ctx, &affiliatev1.GetPayoutRequest{PayoutId: id})
			pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			for _, move := range moves {
				_, err := stranger.move(id, move)
				pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
			}
			batches, err := f.service.ListPayoutBatches(ctx, &affiliatev1.ListPayoutBatchesRequest{})
			if err != nil || batches.Total != 0 || len(batches.Data) != 0 {
				t.Errorf("ListPayoutBatches returned %v, error %v, want none", batches, err)
			}
			payouts, err := f.service.ListPayouts(ctx, &affiliatev1.ListPayoutsRequest{})
			if err != nil || payouts.Total != 0 || len(payouts.Data) != 0 {
				t.Errorf("ListPayouts returned %v, error %v, want none", payouts, err)
			}
			_, err = stranger.createBatch()
			pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState) // no commission is payable
		})
	}
	_, err := f.move("x", "cancel")
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}
