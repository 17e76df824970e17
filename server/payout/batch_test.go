package payout_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func TestPreviewPayouts_ShowsPayoutsAndExclusions(t *testing.T) {
	f := newFixture(t, pgtest.Row{"min_payout_cents": 100})
	hold := f.Now().Add(time.Hour)
	berta, anna, belowMinimum, debtor := f.partner("Berta"), f.partner("anna"), f.partner("Cora"), f.partner("Dora")
	f.addCommission(berta, 60)
	f.addCommission(berta, 50)
	f.addCommission(berta, 1000, inCurrency("USD"))
	f.addCommission(anna, 70)
	f.addEntry(anna, affiliate.EntryBonus, 30)
	f.addCommission(belowMinimum, 99)
	f.addCommission(debtor, 5)
	f.addEntry(debtor, affiliate.EntryAdjustment, -50)
	f.addEntry(f.partner("Bonus"), affiliate.EntryBonus, 100)
	withoutMethod := f.Join("Emma")
	f.addCommission(withoutMethod, 500)
	suspended := f.partner("Fred")
	f.addCommission(suspended, 500)
	f.Exec(`update participants set status = 'suspended' where id = $1`, suspended.ID)
	erased := f.partner("Gone")
	f.addCommission(erased, 500)
	f.Exec(`update participants set erased_at = $2 where id = $1`, erased.ID, f.Now())
	// None of these commissions is payable.
	waiting := f.partner("Waiting")
	for _, columns := range []pgtest.Row{{"needs_review": true, "review_reasons": []string{"r"}}, {"dispute_status": "open"}, {"dispute_status": "lost"}, {"hold_until": hold}} {
		id := f.addCommission(waiting, 500)
		for column, value := range columns {
			f.Exec(`update commissions set `+column+` = $2 where id = $1`, id, value)
		}
	}
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
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if fmt.Sprint(p.Totals) != fmt.Sprint([]*affiliatev1.PayoutTotal{{Currency: "EUR", PayoutCount: 3, AmountCents: 310}, {Currency: "USD", PayoutCount: 1, AmountCents: 1000}}) {
		t.Errorf("totals %v", p.Totals)
	}
	page, err := f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{Page: proto.Int32(2), PageSize: proto.Int32(4)})
	if err != nil || page.Total != 9 || len(page.Data) != 4 || page.Data[0].PartnerName != "Cora" || len(page.Totals) != 2 {
		t.Errorf("%v, %v", page, err)
	}
	if page, err = f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{Page: proto.Int32(9)}); err != nil || len(page.Data) != 0 {
		t.Errorf("beyond the end: %v, %v", page, err)
	}
	other := f.otherShop()
	for _, id := range []affiliate.ProgramID{other.Program, affiliate.NewID[affiliate.Program](f.Now())} {
		_, err = f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{ProgramIds: []string{id.String()}})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	f.clock.Advance(time.Hour)
	if got := format(f.preview()); !strings.Contains(got, "Waiting 1×500+0=500") {
		t.Errorf("the commission is not due after its hold period:\n%s", got)
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
		if err != nil || len(got.Data) != want || got.Cutoff.AsTime().After(f.Now()) {
			t.Errorf("%s: %v, %v; want %d", cutoff, got, err, want)
		}
	}
	found := f.service.Check(&affiliatev1.CreatePayoutBatchRequest{Cutoff: proto.String("tomorrow")})
	if len(found) != 1 || found[0].Field != "cutoff" {
		t.Errorf("%v", found)
	}
}

// headerRecorder records the response headers of one call.
type headerRecorder struct {
	grpc.ServerTransportStream
	header metadata.MD
}

func (r *headerRecorder) SetHeader(md metadata.MD) error {
	r.header = metadata.Join(r.header, md)
	return nil
}

func TestCreatePayoutBatch_OncePerIdempotencyKey(t *testing.T) {
	f := newFixture(t)
	p := f.partner("Anna")
	one, two := f.addCommission(p, 100), f.addCommission(p, 200)
	call := func(key string, req *affiliatev1.CreatePayoutBatchRequest) (*affiliatev1.PayoutBatch, bool, error) {
		r := &headerRecorder{}
		b, err := f.service.CreatePayoutBatch(grpc.NewContextWithServerTransportStream(withKey(f.asFinance(), key), r), req)
		return b, slices.Equal(r.header.Get("idempotent-replayed"), []string{"true"}), err
	}
	for _, ctx := range []context.Context{f.asFinance(), withKey(f.asFinance(), ""), withKey(f.asFinance(), "a b"), withKey(f.asFinance(), strings.Repeat("x", 81))} {
		_, err := f.service.CreatePayoutBatch(ctx, &affiliatev1.CreatePayoutBatchRequest{})
		pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyRequired)
	}
	first, replayed, err := call("key-1", &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || replayed {
		t.Fatal(err, replayed)
	}
	if first.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_DRAFT || first.PayoutCount != 1 || first.ByStatus.Draft != 1 ||
		len(first.Totals) != 1 || first.Totals[0].AmountCents != 300 || first.CreatedBy != f.Owner.String() {
		t.Errorf("%v", first)
	}
	f.clock.Advance(time.Second)
	again, replayed, err := call("key-1", &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || !replayed || !proto.Equal(first, again) {
		t.Errorf("%v\n%v\n%v, replayed %v", first, again, err, replayed)
	}
	_, _, err = call("key-1", &affiliatev1.CreatePayoutBatchRequest{Cutoff: proto.String("2026-01-01")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	for range 2 { // a refused request does not store its key
		_, _, err = call("key-2", &affiliatev1.CreatePayoutBatchRequest{})
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
	}
	f.addCommission(p, 1)
	if _, replayed, err = call("key-2", &affiliatev1.CreatePayoutBatchRequest{}); err != nil || replayed {
		t.Errorf("%v, replayed %v", err, replayed)
	}
	detail := f.onlyPayout(first)
	if detail.AmountCents != 300 || detail.CommissionCount != 2 || len(detail.Commissions) != 2 || detail.GetAccountHint() != "A***@example.com" ||
		detail.PeriodStart == nil || detail.TaxFormStatus != "none" || detail.PartnerName != "Anna" {
		t.Errorf("%v", detail)
	}
	object, _ := f.LastEvent(affiliate.EventPayoutCreated)
	if object["amount_cents"] != float64(1) {
		t.Errorf("%v", object)
	}
	_, objects := f.Events(detail.Id)
	ids := fmt.Sprint(objects[0]["commission_ids"])
	if !strings.Contains(ids, one.String()) || !strings.Contains(ids, two.String()) || objects[0]["status"] != "draft" || objects[0]["method"] != "paypal" {
		t.Errorf("%v", objects)
	}
	if got := f.AuditActions("payout_batch", first.Id); !slices.Equal(got, []string{"payout_batch.create"}) {
		t.Errorf("%v", got)
	}
	f.checkConsistency()
}

// conflictingStore rolls back its first transaction with a serialization failure, after
// which the transaction is run again.
type conflictingStore struct {
	payout.Store
	runs int
}

func (s *conflictingStore) InTx(ctx context.Context, fn func(tx payout.Tx) error) error {
	return s.Store.InTx(ctx, func(tx payout.Tx) error {
		if err := fn(tx); err != nil {
			return err
		}
		if s.runs++; s.runs == 1 {
			return &pgconn.PgError{Code: "40001"} // serialization_failure
		}
		return nil
	})
}

func TestCreatePayoutBatch_ReturnsTheCommittedBatch(t *testing.T) {
	f := newFixture(t)
	f.addCommission(f.partner("Anna"), 100)
	store := &conflictingStore{Store: stores.Payout(f.Store)}
	service := payout.New(payout.Config{Store: store, Seal: f.keys, Now: f.Now})
	first, err := service.CreatePayoutBatch(withKey(f.asFinance(), "key"), &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || store.runs != 2 {
		t.Fatalf("%v after %d runs", err, store.runs)
	}
	stored, err := service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: first.Id})
	if err != nil || !proto.Equal(stored, first) {
		t.Errorf("%v\n%v, %v", stored, first, err)
	}
	again, err := service.CreatePayoutBatch(withKey(f.asFinance(), "key"), &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || !proto.Equal(again, first) {
		t.Errorf("%v\n%v, %v", again, first, err)
	}
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
		f.addEntry(p, affiliate.EntryBonus, 7)
	}
	var created, refused int
	var mu sync.Mutex
	runParallel(8, func(int) {
		_, err := f.createBatch()
		mu.Lock()
		defer mu.Unlock()
		if reason := pgtest.ReasonOf(t, err); reason == "" {
			created++
		} else if reason == affiliate.ReasonPayoutState {
			refused++
		}
	})
	if created+refused != 8 || created < 1 {
		t.Errorf("%d created, %d refused", created, refused)
	}
	if n := f.Count(`select count(*) from commissions where payout_id is null`); n != 0 {
		t.Errorf("%d commissions are in no batch", n)
	}
	if n := f.Count(`select sum(amount_cents)::bigint from payouts`); n != 12*307 {
		t.Errorf("the payouts sum to %d, want %d", n, 12*307)
	}
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
			t.Errorf("%v", err)
		}
		responses[i] = b
	})
	for _, b := range responses {
		if !proto.Equal(b, responses[0]) {
			t.Errorf("%v\n%v", b, responses[0])
		}
	}
	if n := f.Count(`select count(*) from payout_batches`); n != 1 {
		t.Errorf("%d batches", n)
	}
}

// runParallel calls fn n times in parallel.
func runParallel(n int, fn func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { fn(i) })
	}
	wait.Wait()
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
	if b.Totals[0].AmountCents != 4100+5*400 {
		t.Fatalf("%v", b)
	}

	for _, err := range []error{
		f.moveCommission(rejected, affiliate.MoveReject, affiliate.CommissionTransition{}),
		f.refund(refunded, 0),
		f.moveCommission(flagged, affiliate.MoveFlag, affiliate.CommissionTransition{ReviewReasons: []string{"r"}}),
		f.refund(half, 200),
		f.refund(tooSmall, 99),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	f.Exec(`update commissions set dispute_status = 'open' where id = $1`, disputed)
	f.Exec(`update participants set status = 'suspended' where id = $1`, suspended.ID)
	f.addEntry(debtor, affiliate.EntryAdjustment, -500)
	f.addEntry(withBonus, affiliate.EntryBonus, 50)
	f.clock.Advance(time.Minute)
	b = f.confirm(b)
	if b.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED || b.ByStatus.Pending != 3 || b.ByStatus.Canceled != 3 ||
		b.Totals[0].AmountCents != 100+200+450 || b.GetConfirmedBy() != f.Owner.String() || b.ConfirmedAt == nil {
		t.Errorf("%v", b)
	}
	got := map[string]string{}
	for _, p := range f.payouts(b) {
		got[p.PartnerName] = fmt.Sprint(p.AmountCents, " ", p.CommissionCount, " ", p.AdjustmentCents, " ", strings.TrimPrefix(p.Status.String(), "PAYOUT_STATUS_"))
		if (p.InitiatedAt != nil) != (p.Status == affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING) {
			t.Errorf("%v", p)
		}
	}
	for name, want := range map[string]string{
		"changed": "100 1 0 PENDING", "reduced": "200 1 0 PENDING", "with bonus": "450 1 50 PENDING",
		"below minimum": "99 1 0 CANCELED", "suspended": "400 1 0 CANCELED", "debtor": "400 1 0 CANCELED",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	// Commissions that were removed from their payout can be paid by another payout.
	for id, removed := range map[affiliate.CommissionID]bool{flagged: true, disputed: true, tooSmall: true, half: false} {
		if n := f.Count(`select count(*) from commissions where id = $1 and payout_id is null`, id); (n == 1) != removed {
			t.Errorf("removed %d, want %v", n, removed)
		}
	}
	if n := f.Count(`select count(*) from events where type = 'payout.canceled'`); n != 3 {
		t.Errorf("%d events of canceled payouts", n)
	}
	_, err := f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
	if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "confirmed" {
		t.Errorf("status %s", status)
	}
	f.checkConsistency()
	f.Exec(`update participants set status = 'approved'`)
	if lines := f.preview().Data; len(lines) != 3 {
		t.Errorf("the canceled payouts are not due again: %v", lines)
	}
}

func TestConfirmPayoutBatch_WithoutPayableCommissionsIsCanceled(t *testing.T) {
	f := newFixture(t)
	id := f.addCommission(f.partner("Anna"), 100)
	b := f.mustCreateBatch()
	f.Exec(`update commissions set needs_review = true where id = $1`, id)
	if b = f.confirm(b); b.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED || b.CompletedAt == nil || len(b.Totals) != 0 {
		t.Errorf("%v", b)
	}
	f.checkConsistency()
}

func TestCancelPayoutBatch_ReleasesItsCommissions(t *testing.T) {
	f := newFixture(t)
	anna, berta := f.partner("Anna"), f.partner("Berta")
	f.addCommission(anna, 100)
	f.addCommission(berta, 200)
	f.addEntry(anna, affiliate.EntryBonus, 5)
	cancel := func(b *affiliatev1.PayoutBatch) (*affiliatev1.PayoutBatch, error) {
		return f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
	}
	for _, confirmed := range []bool{false, true} {
		b := f.mustCreateBatch()
		if confirmed {
			f.confirm(b)
		}
		canceled, err := cancel(b)
		if err != nil || canceled.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED || canceled.ByStatus.Canceled != 2 {
			t.Fatalf("%v, %v", canceled, err)
		}
		_, err = cancel(b)
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
		f.checkConsistency()
	}
	b := f.mustCreateBatch()
	f.confirm(b)
	f.mustMove(f.payouts(b)[0].Id, "paid")
	_, err := cancel(b)
	if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "processing" {
		t.Errorf("status %s", status)
	}
	f.checkConsistency()
}

func TestPayouts_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	other := f.otherShop()
	f.addCommission(f.partner("Anna"), 100)
	b := f.mustCreateBatch()
	id := f.onlyPayout(b).Id
	testMode := &fixture{f.InOtherMode(), f.service, f.keys, f.clock}
	for _, stranger := range []*fixture{other, testMode} {
		ctx := stranger.asFinance()
		for _, call := range []func() error{
			func() error {
				_, err := f.service.GetPayoutBatch(ctx, &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
				return err
			},
			func() error {
				_, err := f.service.ConfirmPayoutBatch(ctx, &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
				return err
			},
			func() error {
				_, err := f.service.CancelPayoutBatch(ctx, &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
				return err
			},
			func() error { _, err := stranger.export(b, 0); return err },
			func() error {
				_, err := f.service.GetPayout(ctx, &affiliatev1.GetPayoutRequest{PayoutId: id})
				return err
			},
			func() error { _, err := stranger.move(id, "paid"); return err },
			func() error { _, err := stranger.move(id, "failed"); return err },
			func() error { _, err := stranger.move(id, "retry"); return err },
			func() error { _, err := stranger.move(id, "cancel"); return err },
			func() error { _, err := f.move("x", "cancel"); return err },
		} {
			pgtest.RequireRefusal(t, call(), affiliate.ReasonNotFound)
		}
		batches, err := f.service.ListPayoutBatches(ctx, &affiliatev1.ListPayoutBatchesRequest{})
		if err != nil || batches.Total != 0 {
			t.Errorf("%v, %v", batches, err)
		}
		payouts, err := f.service.ListPayouts(ctx, &affiliatev1.ListPayoutsRequest{})
		if err != nil || payouts.Total != 0 {
			t.Errorf("%v, %v", payouts, err)
		}
		_, err = stranger.createBatch()
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
	}
}
