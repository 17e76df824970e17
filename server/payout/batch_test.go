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

func TestPreviewShowsWhatIsPaidAndWhyNot(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(pgtest.Row{"min_payout_cents": 100})
	hold := w.now().Add(time.Hour)
	paid, both, small, debtor := m.partner("Berta"), m.partner("anna"), m.partner("Cora"), m.partner("Dora")
	m.commission(paid, 60)
	m.commission(paid, 50)
	m.commission(paid, 1000, pgtest.Row{"currency": "USD"})
	m.commission(both, 70)
	m.entry(both, affiliate.EntryBonus, 30)
	m.commission(small, 99)
	m.commission(debtor, 5)
	m.entry(debtor, affiliate.EntryAdjustment, -50)
	m.entry(m.partner("Bonus"), affiliate.EntryBonus, 100)
	nobody := w.NewParticipant(m.scope, m.program, w.NewPartner("Emma"))
	m.commission(nobody, 500)
	suspended := m.partner("Fred")
	m.commission(suspended, 500)
	w.Exec(`update participants set status = 'suspended' where id = $1`, suspended.ID)
	erased := m.partner("Gone")
	m.commission(erased, 500)
	w.Exec(`update participants set erased_at = $2 where id = $1`, erased.ID, w.now())
	// Nothing of these is due.
	waiting := m.partner("Waiting")
	for _, why := range []pgtest.Row{{"needs_review": true, "review_reasons": []string{"r"}}, {"dispute_status": "open"}, {"dispute_status": "lost"}, {"hold_until": hold}} {
		id := m.commission(waiting, 500)
		for column, value := range why {
			w.Exec(`update commissions set `+column+` = $2 where id = $1`, id, value)
		}
	}
	m.partner("Idle")

	show := func(p *affiliatev1.PayoutPreview) string {
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
	p := m.preview()
	if got := show(p); got != want || p.Total != 9 {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if fmt.Sprint(p.Totals) != fmt.Sprint([]*affiliatev1.PayoutTotal{{Currency: "EUR", PayoutCount: 3, AmountCents: 310}, {Currency: "USD", PayoutCount: 1, AmountCents: 1000}}) {
		t.Errorf("totals %v", p.Totals)
	}
	page, err := w.service.PreviewPayouts(m.call(), &affiliatev1.PreviewPayoutsRequest{Page: proto.Int32(2), PageSize: proto.Int32(4)})
	if err != nil || page.Total != 9 || len(page.Data) != 4 || page.Data[0].PartnerName != "Cora" || len(page.Totals) != 2 {
		t.Errorf("%v, %v", page, err)
	}
	if page, err = w.service.PreviewPayouts(m.call(), &affiliatev1.PreviewPayoutsRequest{Page: proto.Int32(9)}); err != nil || len(page.Data) != 0 {
		t.Errorf("beyond the end: %v, %v", page, err)
	}
	other := w.merchant()
	for _, id := range []affiliate.ProgramID{other.program, affiliate.NewID[affiliate.Program](w.now())} {
		_, err = w.service.PreviewPayouts(m.call(), &affiliatev1.PreviewPayoutsRequest{ProgramIds: []string{id.String()}})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
	w.pass(time.Hour)
	if got := show(m.preview()); !strings.Contains(got, "Waiting 1×500+0=500") {
		t.Errorf("the hold is over at its end:\n%s", got)
	}
	w.sound()
}

func TestCutoffAndPayoutTerm(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(pgtest.Row{"payout_term_days": 2})
	p := m.partner("Anna")
	m.commission(p, 100) // approved on 10 March at 12:00
	w.pass(72 * time.Hour)
	for cutoff, want := range map[string]int{
		"2026-03-12T11:59:59.999Z": 0, "2026-03-12T12:00:00Z": 1, "2026-03-12": 1, "2026-03-11": 0, "2030-01-01": 1, "": 1,
	} {
		got, err := w.service.PreviewPayouts(m.call(), &affiliatev1.PreviewPayoutsRequest{Cutoff: &cutoff})
		if err != nil || len(got.Data) != want || got.Cutoff.AsTime().After(w.now()) {
			t.Errorf("%s: %v, %v; want %d", cutoff, got, err, want)
		}
	}
	found := w.service.Check(&affiliatev1.CreatePayoutBatchRequest{Cutoff: proto.String("tomorrow")})
	if len(found) != 1 || found[0].Field != "cutoff" {
		t.Errorf("%v", found)
	}
}

// replies takes the headers of one call.
type replies struct {
	grpc.ServerTransportStream
	header metadata.MD
}

func (r *replies) SetHeader(md metadata.MD) error { r.header = metadata.Join(r.header, md); return nil }

func TestBatchIsMadeOncePerKey(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	p := m.partner("Anna")
	one, two := m.commission(p, 100), m.commission(p, 200)
	call := func(key string, req *affiliatev1.CreatePayoutBatchRequest) (*affiliatev1.PayoutBatch, bool, error) {
		r := &replies{}
		b, err := w.service.CreatePayoutBatch(grpc.NewContextWithServerTransportStream(withKey(m.call(), key), r), req)
		return b, slices.Equal(r.header.Get("idempotent-replayed"), []string{"true"}), err
	}
	for _, ctx := range []context.Context{m.call(), withKey(m.call(), ""), withKey(m.call(), "a b"), withKey(m.call(), strings.Repeat("x", 81))} {
		_, err := w.service.CreatePayoutBatch(ctx, &affiliatev1.CreatePayoutBatchRequest{})
		pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyRequired)
	}
	first, replayed, err := call("key-1", &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || replayed {
		t.Fatal(err, replayed)
	}
	if first.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_DRAFT || first.PayoutCount != 1 || first.ByStatus.Draft != 1 ||
		len(first.Totals) != 1 || first.Totals[0].AmountCents != 300 || first.CreatedBy != m.user.String() {
		t.Errorf("%v", first)
	}
	w.pass(time.Second)
	again, replayed, err := call("key-1", &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || !replayed || !proto.Equal(first, again) {
		t.Errorf("%v\n%v\n%v, replayed %v", first, again, err, replayed)
	}
	_, _, err = call("key-1", &affiliatev1.CreatePayoutBatchRequest{Cutoff: proto.String("2026-01-01")})
	pgtest.RequireRefusal(t, err, affiliate.ReasonIdempotencyKeyReused)
	for range 2 { // a refusal does not use the key up
		_, _, err = call("key-2", &affiliatev1.CreatePayoutBatchRequest{})
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
	}
	m.commission(p, 1)
	if _, replayed, err = call("key-2", &affiliatev1.CreatePayoutBatchRequest{}); err != nil || replayed {
		t.Errorf("%v, replayed %v", err, replayed)
	}
	detail := m.the(first)
	if detail.AmountCents != 300 || detail.CommissionCount != 2 || len(detail.Commissions) != 2 || detail.GetAccountHint() != "A***@example.com" ||
		detail.PeriodStart == nil || detail.TaxFormStatus != "none" || detail.PartnerName != "Anna" {
		t.Errorf("%v", detail)
	}
	object, _ := w.LastEvent(affiliate.EventPayoutCreated)
	if object["amount_cents"] != float64(1) {
		t.Errorf("%v", object)
	}
	_, objects := w.Events(detail.Id)
	named := fmt.Sprint(objects[0]["commission_ids"])
	if !strings.Contains(named, one.String()) || !strings.Contains(named, two.String()) || objects[0]["status"] != "draft" || objects[0]["method"] != "paypal" {
		t.Errorf("%v", objects)
	}
	if got := w.AuditActions("payout_batch", first.Id); !slices.Equal(got, []string{"payout_batch.create"}) {
		t.Errorf("%v", got)
	}
	w.sound()
}

// conflictingStore rolls its first transaction back after its last statement, with
// an error after which transactions are repeated.
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

func TestCreatePayoutBatch_AnswersWithTheBatchThatWasCommitted(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	m.commission(m.partner("Anna"), 100)
	store := &conflictingStore{Store: stores.Payout(w.Store)}
	service := payout.New(payout.Config{Store: store, Seal: w.keys, Now: w.now})
	first, err := service.CreatePayoutBatch(withKey(m.call(), "key"), &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || store.runs != 2 {
		t.Fatalf("%v after %d runs", err, store.runs)
	}
	stored, err := service.GetPayoutBatch(m.call(), &affiliatev1.GetPayoutBatchRequest{BatchId: first.Id})
	if err != nil || !proto.Equal(stored, first) {
		t.Errorf("%v\n%v, %v", stored, first, err)
	}
	again, err := service.CreatePayoutBatch(withKey(m.call(), "key"), &affiliatev1.CreatePayoutBatchRequest{})
	if err != nil || !proto.Equal(again, first) {
		t.Errorf("%v\n%v, %v", again, first, err)
	}
	w.sound()
}

// Every commission is in exactly one of the batches that are made at a time.
func TestParallelBatchesShareNothing(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	for i := range 12 {
		p := m.partner(fmt.Sprint("P", i))
		for range 3 {
			m.commission(p, 100)
		}
		m.entry(p, affiliate.EntryBonus, 7)
	}
	var made, refused int
	var mu sync.Mutex
	race(8, func(int) {
		_, err := m.batch()
		mu.Lock()
		defer mu.Unlock()
		if reason := pgtest.ReasonOf(t, err); reason == "" {
			made++
		} else if reason == affiliate.ReasonPayoutState {
			refused++
		}
	})
	if made+refused != 8 || made < 1 {
		t.Errorf("%d made, %d refused", made, refused)
	}
	if n := w.Count(`select count(*) from commissions where payout_id is null`); n != 0 {
		t.Errorf("%d commissions are in no batch", n)
	}
	if n := w.Count(`select sum(amount_cents)::bigint from payouts`); n != 12*307 {
		t.Errorf("%d are paid in all, want %d", n, 12*307)
	}
	w.sound()
}

// Twins under one key get one answer.
func TestParallelBatchesOfOneKeyAreOne(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	m.commission(m.partner("Anna"), 100)
	answers := make([]*affiliatev1.PayoutBatch, 6)
	race(len(answers), func(i int) {
		b, err := w.service.CreatePayoutBatch(withKey(m.call(), "same"), &affiliatev1.CreatePayoutBatchRequest{})
		if err != nil {
			t.Errorf("%v", err)
		}
		answers[i] = b
	})
	for _, b := range answers {
		if !proto.Equal(b, answers[0]) {
			t.Errorf("%v\n%v", b, answers[0])
		}
	}
	if n := w.Count(`select count(*) from payout_batches`); n != 1 {
		t.Errorf("%d batches", n)
	}
}

// race runs do n times at once.
func race(n int, do func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { do(i) })
	}
	wait.Wait()
}

func TestConfirmingJudgesAnew(t *testing.T) {
	w := newWorld(t)
	m := w.merchant(pgtest.Row{"min_payout_cents": 100})
	changed, lowered, fallen, suspended, indebted, praised := m.partner("changed"), m.partner("lowered"), m.partner("fallen"),
		m.partner("suspended"), m.partner("indebted"), m.partner("praised")
	m.commission(changed, 100)
	rejected, refunded, flagged, disputed := m.commission(changed, 1000), m.commission(changed, 1000), m.commission(changed, 1000), m.commission(changed, 1000)
	half := m.commission(lowered, 400)
	tooMuch := m.commission(fallen, 400)
	m.commission(suspended, 400)
	m.commission(indebted, 400)
	m.commission(praised, 400)
	b := m.mustBatch()
	if b.Totals[0].AmountCents != 4100+5*400 {
		t.Fatalf("%v", b)
	}

	for _, err := range []error{
		m.moveCommission(rejected, affiliate.MoveReject, affiliate.CommissionTransition{}),
		m.refund(refunded, 0),
		m.moveCommission(flagged, affiliate.MoveFlag, affiliate.CommissionTransition{ReviewReasons: []string{"r"}}),
		m.refund(half, 200),
		m.refund(tooMuch, 99),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	w.Exec(`update commissions set dispute_status = 'open' where id = $1`, disputed)
	w.Exec(`update participants set status = 'suspended' where id = $1`, suspended.ID)
	m.entry(indebted, affiliate.EntryAdjustment, -500)
	m.entry(praised, affiliate.EntryBonus, 50)
	w.pass(time.Minute)
	b = m.confirm(b)
	if b.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED || b.ByStatus.Pending != 3 || b.ByStatus.Canceled != 3 ||
		b.Totals[0].AmountCents != 100+200+450 || b.GetConfirmedBy() != m.user.String() || b.ConfirmedAt == nil {
		t.Errorf("%v", b)
	}
	got := map[string]string{}
	for _, p := range m.payouts(b) {
		got[p.PartnerName] = fmt.Sprint(p.AmountCents, " ", p.CommissionCount, " ", p.AdjustmentCents, " ", strings.TrimPrefix(p.Status.String(), "PAYOUT_STATUS_"))
		if (p.InitiatedAt != nil) != (p.Status == affiliatev1.PayoutStatus_PAYOUT_STATUS_PENDING) {
			t.Errorf("%v", p)
		}
	}
	for name, want := range map[string]string{
		"changed": "100 1 0 PENDING", "lowered": "200 1 0 PENDING", "praised": "450 1 50 PENDING",
		"fallen": "99 1 0 CANCELED", "suspended": "400 1 0 CANCELED", "indebted": "400 1 0 CANCELED",
	} {
		if got[name] != want {
			t.Errorf("%s: %s, want %s", name, got[name], want)
		}
	}
	// What left is free again, unless it has ended.
	for id, free := range map[affiliate.CommissionID]bool{flagged: true, disputed: true, tooMuch: true, half: false} {
		if n := w.Count(`select count(*) from commissions where id = $1 and payout_id is null`, id); (n == 1) != free {
			t.Errorf("free %d, want %v", n, free)
		}
	}
	if n := w.Count(`select count(*) from events where type = 'payout.canceled'`); n != 3 {
		t.Errorf("%d events of canceled payouts", n)
	}
	_, err := w.service.ConfirmPayoutBatch(m.call(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
	if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "confirmed" {
		t.Errorf("status %s", status)
	}
	w.sound()
	w.Exec(`update participants set status = 'approved'`)
	if lines := m.preview().Data; len(lines) != 3 {
		t.Errorf("what was canceled is due again: %v", lines)
	}
}

func TestConfirmingWhatIsGoneCancelsTheBatch(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	id := m.commission(m.partner("Anna"), 100)
	b := m.mustBatch()
	w.Exec(`update commissions set needs_review = true where id = $1`, id)
	if b = m.confirm(b); b.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED || b.CompletedAt == nil || len(b.Totals) != 0 {
		t.Errorf("%v", b)
	}
	w.sound()
}

func TestCancelingABatchFreesWhatItHeld(t *testing.T) {
	w := newWorld(t)
	m := w.merchant()
	anna, berta := m.partner("Anna"), m.partner("Berta")
	m.commission(anna, 100)
	m.commission(berta, 200)
	m.entry(anna, affiliate.EntryBonus, 5)
	cancel := func(b *affiliatev1.PayoutBatch) (*affiliatev1.PayoutBatch, error) {
		return w.service.CancelPayoutBatch(m.call(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
	}
	for _, confirmed := range []bool{false, true} {
		b := m.mustBatch()
		if confirmed {
			m.confirm(b)
		}
		canceled, err := cancel(b)
		if err != nil || canceled.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED || canceled.ByStatus.Canceled != 2 {
			t.Fatalf("%v, %v", canceled, err)
		}
		_, err = cancel(b)
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
		w.sound()
	}
	b := m.mustBatch()
	m.confirm(b)
	m.must(m.payouts(b)[0].Id, "paid")
	_, err := cancel(b)
	if status := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)["status"]; status != "processing" {
		t.Errorf("status %s", status)
	}
	w.sound()
}

func TestBatchesAndPayoutsOfOthersAreNotFound(t *testing.T) {
	w := newWorld(t)
	m, other := w.merchant(), w.merchant()
	m.commission(m.partner("Anna"), 100)
	b := m.mustBatch()
	id := m.the(b).Id
	mode := *m
	mode.scope.Mode = affiliate.ModeTest
	for _, stranger := range []*merchant{other, &mode} {
		ctx := stranger.call()
		for _, call := range []func() error{
			func() error {
				_, err := w.service.GetPayoutBatch(ctx, &affiliatev1.GetPayoutBatchRequest{BatchId: b.Id})
				return err
			},
			func() error {
				_, err := w.service.ConfirmPayoutBatch(ctx, &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
				return err
			},
			func() error {
				_, err := w.service.CancelPayoutBatch(ctx, &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
				return err
			},
			func() error { _, err := stranger.export(b, 0); return err },
			func() error {
				_, err := w.service.GetPayout(ctx, &affiliatev1.GetPayoutRequest{PayoutId: id})
				return err
			},
			func() error { _, err := stranger.do(id, "paid"); return err },
			func() error { _, err := stranger.do(id, "failed"); return err },
			func() error { _, err := stranger.do(id, "retry"); return err },
			func() error { _, err := stranger.do(id, "cancel"); return err },
			func() error { _, err := m.do("x", "cancel"); return err },
		} {
			pgtest.RequireRefusal(t, call(), affiliate.ReasonNotFound)
		}
		batches, err := w.service.ListPayoutBatches(ctx, &affiliatev1.ListPayoutBatchesRequest{})
		if err != nil || batches.Total != 0 {
			t.Errorf("%v, %v", batches, err)
		}
		payouts, err := w.service.ListPayouts(ctx, &affiliatev1.ListPayoutsRequest{})
		if err != nil || payouts.Total != 0 {
			t.Errorf("%v, %v", payouts, err)
		}
		_, err = stranger.batch()
		pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState)
	}
}
