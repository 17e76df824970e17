package payout_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/commission"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	commissionservice "github.com/tributary-hq/tributary/server/commission"
	payoutservice "github.com/tributary-hq/tributary/server/payout"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fixture is a shop in live mode with the service under test.
type fixture struct {
	*pgtest.Shop
	service *payoutservice.Service
	keys    *seal.Keys
	clock   *pgtest.Clock
}

// newFixture returns a fixture with a new database. programColumns replaces default
// values of the columns of the programme.
func newFixture(t *testing.T, programColumns ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC))
	keys, err := seal.New("k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive, programColumns...)
	service := payoutservice.New(payoutservice.Config{DB: shop.DB, Seal: keys, Now: clock.Now})
	return &fixture{shop, service, keys, clock}
}

// otherShop returns a fixture with a shop in a new workspace and with the same service.
func (f *fixture) otherShop(programColumns ...pgtest.Row) *fixture {
	f.Helper()
	return &fixture{f.NewShop(affiliate.ModeLive, programColumns...), f.service, f.keys, f.clock}
}

// asFinance returns the context of a call by a member with the role finance.
func (f *fixture) asFinance() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleFinance)
}

// withKey adds an idempotency key to the context of a call.
func withKey(ctx context.Context, key string) context.Context {
	return metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
}

// partner adds a partner to the shop's programme. The payout method is PayPal. The values
// in changes replace default values of the participant's columns.
func (f *fixture) partner(name string, changes ...pgtest.Row) pgtest.Participant {
	f.Helper()
	p := f.Join(name, changes...)
	f.setMethod(p, payout.Account{Method: payout.PayPal, Account: name + "@example.com"})
	return p
}

func (f *fixture) setMethod(p pgtest.Participant, account payout.Account) {
	f.Helper()
	plain, err := json.Marshal(account)
	if err != nil {
		f.Fatal(err)
	}
	var sealed []byte
	if account.Account != "" {
		sealed = f.keys.Seal(plain, []byte(p.Partner.String()))
	}
	if err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		locked, err := payouts.LockMethod(f.Context(), tx, p.Partner)
		if err != nil {
			return err
		}
		owed, err := payouts.IsOwed(f.Context(), tx, p.Partner)
		if err != nil {
			return err
		}
		change := payout.MethodChange{At: f.Now(), First: locked.Method == nil, Owed: owed}
		details := change.Apply(payout.Details{Method: account.Method, Hint: account.Hint()})
		return payouts.SetMethod(f.Context(), tx, p.Partner, payout.SealedMethod{Details: details, Account: sealed})
	}); err != nil {
		f.Fatal(err)
	}
}

// addCommission records a sale whose commission has the given amount, and approves the
// commission.
func (f *fixture) addCommission(p pgtest.Participant, cents int64, change ...func(*commission.Commission)) affiliate.CommissionID {
	f.Helper()
	amounts := func(c *commission.Commission) {
		c.AmountCents, c.OriginalAmountCents, c.BaseAmountCents, c.SaleAmountCents = cents, cents, 10*cents, 10*cents
	}
	c := f.NewCommission(p, append([]func(*commission.Commission){amounts}, change...)...)
	if err := f.moveCommission(c.ID, commission.MoveApprove, commission.Transition{}); err != nil {
		f.Fatal(err)
	}
	return c.ID
}

// inCurrency sets the currency of a commission.
func inCurrency(currency string) func(*commission.Commission) {
	return func(c *commission.Commission) { c.Currency = currency }
}

// moveCommission changes the status of a commission, with the shop's owner as actor.
func (f *fixture) moveCommission(id affiliate.CommissionID, move commission.Move, t commission.Transition) error {
	t.Scope, t.Program, t.Commission, t.Move, t.At = f.Scope, f.Program, id, move, f.Now()
	t.Actor = affiliate.Actor{User: &f.Owner}
	_, err := commissionservice.Move(f.Context(), f.DB, t)
	return err
}

// refund records the refund of the complete sale of a commission.
func (f *fixture) refund(id affiliate.CommissionID) error {
	return f.moveCommission(id, commission.MoveRefund, commission.Transition{Full: true, RefundReason: commission.RefundedSale})
}

// refundPart records a partial refund, which reduces the commission to remainingCents.
func (f *fixture) refundPart(id affiliate.CommissionID, remainingCents int64) error {
	return f.moveCommission(id, commission.MoveRefund, commission.Transition{AmountCents: remainingCents, RefundReason: commission.RefundedSale})
}

func (f *fixture) mustRefund(id affiliate.CommissionID) {
	f.Helper()
	if err := f.refund(id); err != nil {
		f.Fatalf("refund: %v", err)
	}
}

func (f *fixture) mustRefundPart(id affiliate.CommissionID, remainingCents int64) {
	f.Helper()
	if err := f.refundPart(id, remainingCents); err != nil {
		f.Fatalf("partial refund: %v", err)
	}
}

func (f *fixture) reject(id affiliate.CommissionID) error {
	return f.moveCommission(id, commission.MoveReject, commission.Transition{})
}

// flag marks a commission for review, so that it is not payable.
func (f *fixture) flag(id affiliate.CommissionID) {
	f.Helper()
	if err := f.moveCommission(id, commission.MoveFlag, commission.Transition{ReviewReasons: []string{"r"}}); err != nil {
		f.Fatalf("flag: %v", err)
	}
}

// clearReview removes the mark that flag sets.
func (f *fixture) clearReview(id affiliate.CommissionID) {
	f.Helper()
	if err := f.moveCommission(id, commission.MoveClearReview, commission.Transition{ReviewReasons: []string{"r"}}); err != nil {
		f.Fatalf("clear the review: %v", err)
	}
}

func (f *fixture) addEntry(p pgtest.Participant, kind ledger.EntryType, cents int64) {
	f.Helper()
	f.NewLedgerEntry(p, cents, func(e *ledger.ManualEntry) { e.Type = kind })
}

// createBatch creates a batch with a new idempotency key. Its cutoff is the current time.
func (f *fixture) createBatch() (*affiliatev1.PayoutBatch, error) {
	key := affiliate.NewID[payout.BatchID](f.Now()).String()
	return f.service.CreatePayoutBatch(withKey(f.asFinance(), key), &affiliatev1.CreatePayoutBatchRequest{})
}

func (f *fixture) mustCreateBatch() *affiliatev1.PayoutBatch {
	f.Helper()
	b, err := f.createBatch()
	if err != nil {
		f.Fatal(err)
	}
	return b
}

func (f *fixture) confirm(b *affiliatev1.PayoutBatch) *affiliatev1.PayoutBatch {
	f.Helper()
	confirmed, err := f.service.ConfirmPayoutBatch(f.asFinance(), &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
	if err != nil {
		f.Fatal(err)
	}
	return confirmed
}

func (f *fixture) getBatch(id string) *affiliatev1.PayoutBatch {
	f.Helper()
	b, err := f.service.GetPayoutBatch(f.asFinance(), &affiliatev1.GetPayoutBatchRequest{BatchId: id})
	if err != nil {
		f.Fatal(err)
	}
	return b
}

// payouts returns all payouts of a batch with their commissions.
func (f *fixture) payouts(b *affiliatev1.PayoutBatch) []*affiliatev1.PayoutDetail {
	f.Helper()
	list, err := f.service.ListPayouts(f.asFinance(), &affiliatev1.ListPayoutsRequest{BatchId: &b.Id, PageSize: proto.Int32(100)})
	if err != nil {
		f.Fatal(err)
	}
	details := make([]*affiliatev1.PayoutDetail, len(list.Data))
	for i, p := range list.Data {
		details[i] = f.payout(p.Id)
	}
	return details
}

func (f *fixture) payout(id string) *affiliatev1.PayoutDetail {
	f.Helper()
	p, err := f.service.GetPayout(f.asFinance(), &affiliatev1.GetPayoutRequest{PayoutId: id})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// onlyPayout returns the payout of a batch that must have exactly one.
func (f *fixture) onlyPayout(b *affiliatev1.PayoutBatch) *affiliatev1.PayoutDetail {
	f.Helper()
	all := f.payouts(b)
	if len(all) != 1 {
		f.Fatalf("the batch has %d payouts, want 1", len(all))
	}
	return all[0]
}

var moves = []string{"paid", "failed", "retry", "cancel"}

// move changes the status of a payout. The argument move is an element of moves and
// selects the method of the service.
func (f *fixture) move(id, move string) (*affiliatev1.Payout, error) {
	ctx := f.asFinance()
	switch move {
	case "paid":
		return f.service.MarkPayoutPaid(ctx, &affiliatev1.MarkPayoutPaidRequest{PayoutId: id, Reference: "T-1"})
	case "failed":
		return f.service.MarkPayoutFailed(ctx, &affiliatev1.MarkPayoutFailedRequest{PayoutId: id, Reason: "No such account."})
	case "retry":
		return f.service.RetryPayout(ctx, &affiliatev1.RetryPayoutRequest{PayoutId: id})
	default:
		return f.service.CancelPayout(ctx, &affiliatev1.CancelPayoutRequest{PayoutId: id})
	}
}

func (f *fixture) mustMove(id, move string) *affiliatev1.Payout {
	f.Helper()
	p, err := f.move(id, move)
	if err != nil {
		f.Fatalf("%s: %v", move, err)
	}
	return p
}

func (f *fixture) export(req *affiliatev1.ExportPayoutBatchRequest) (*servertest.Download, error) {
	d := servertest.NewDownload(f.asFinance())
	return d, f.service.ExportPayoutBatch(req, d)
}

func (f *fixture) process(b *affiliatev1.PayoutBatch) (*affiliatev1.PayoutBatch, error) {
	return f.service.ProcessPayoutBatch(f.asFinance(), &affiliatev1.ProcessPayoutBatchRequest{BatchId: b.Id})
}

func (f *fixture) mustProcess(b *affiliatev1.PayoutBatch) {
	f.Helper()
	if _, err := f.process(b); err != nil {
		f.Fatal(err)
	}
}

// preview returns the preview of a batch whose cutoff is the current time.
func (f *fixture) preview() *affiliatev1.PayoutPreview {
	f.Helper()
	p, err := f.service.PreviewPayouts(f.asFinance(), &affiliatev1.PreviewPayoutsRequest{PageSize: proto.Int32(100)})
	if err != nil {
		f.Fatal(err)
	}
	return p
}

// wantBalance checks the sum of a participant's ledger entries.
func (f *fixture) wantBalance(p pgtest.Participant, want int) {
	f.Helper()
	f.WantCount(want, "balance", `select coalesce(sum(amount_cents), 0)::bigint from ledger_entries where participant_id = $1`, p.ID)
}

// wantInPayout checks whether a commission is in a payout.
func (f *fixture) wantInPayout(want bool, id affiliate.CommissionID) {
	f.Helper()
	if got := f.Count(`select count(*) from commissions where id = $1 and payout_id is not null`, id) == 1; got != want {
		f.Errorf("the commission %s is in a payout: %t, want %t", id, got, want)
	}
}

// requireStateRefusal checks that a call was refused because of the current status, which
// is in the metadata of the error.
func requireStateRefusal(t *testing.T, err error, status string) {
	t.Helper()
	if metadata := pgtest.RequireRefusal(t, err, affiliate.ReasonPayoutState); metadata["status"] != status {
		t.Errorf("the error has the metadata %v, want status = %s", metadata, status)
	}
}

// runParallel calls fn n times in parallel.
func runParallel(n int, fn func(i int)) {
	var calls sync.WaitGroup
	for i := range n {
		calls.Go(func() { fn(i) })
	}
	calls.Wait()
}

// outcomes counts the successful calls of each kind in a test with parallel calls.
type outcomes struct {
	mu        sync.Mutex
	succeeded map[string]int
}

func newOutcomes(kinds ...string) *outcomes {
	o := &outcomes{succeeded: map[string]int{}}
	for _, kind := range kinds {
		o.succeeded[kind] = 0
	}
	return o
}

// record counts a call if err is nil. Otherwise it checks that the call was refused
// because of the status of the payout or commission. It reports whether the call
// succeeded.
func (o *outcomes) record(t *testing.T, kind string, err error) bool {
	t.Helper()
	if err == nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.succeeded[kind]++
		return true
	}
	if !errors.Is(err, affiliate.Refuse(affiliate.ReasonPayoutState)) && !errors.Is(err, affiliate.Refuse(affiliate.ReasonCommissionTerminal)) {
		t.Errorf("%s: %v", kind, err)
	}
	return false
}

// complete reports whether at least one call of each kind succeeded.
func (o *outcomes) complete() bool {
	return !slices.Contains(slices.Collect(maps.Values(o.succeeded)), 0)
}

// requireComplete ends the test unless at least one call of each kind succeeded.
func (o *outcomes) requireComplete(t *testing.T) {
	t.Helper()
	if !o.complete() {
		t.Fatalf("successful calls by kind: %v, want at least one of each kind", o.succeeded)
	}
}

// checkConsistency checks the invariants of payouts, commissions and the ledger. The
// invariants hold after every transaction.
func (f *fixture) checkConsistency() {
	f.Helper()
	for violation, sql := range map[string]string{
		"balances that are not the sums of their ledger entries": `
			select count(*) from (select participant_id, currency, sum(amount_cents) as n from ledger_entries group by 1, 2) e
			full join (select participant_id, currency, sum(balance_cents) as n from ledger_balances group by 1, 2) b using (participant_id, currency)
			where e.n is distinct from b.n`,
		"payouts whose ledger entries do not sum to the amount that was sent": `
			select count(*) from payouts p
			where (select coalesce(sum(amount_cents), 0) from ledger_entries e where e.payout_id = p.id)
				<> case when p.status in ('processing', 'paid') then -p.amount_cents else 0 end`,
		"commissions whose ledger entries do not sum to the amount of the commission": `
			select count(*) from commissions c
			where (select coalesce(sum(amount_cents), 0) from ledger_entries e where e.commission_id = c.id)
				<> case when c.status in ('approved', 'paid') then c.amount_cents else 0 end`,
		"payouts whose amount is not the sum of their commissions and adjustment": `
			select count(*) from payouts p
			where p.amount_cents <> p.adjustment_cents + (select coalesce(sum(amount_cents), 0) from payout_commissions c where c.payout_id = p.id)
				or p.commission_count <> (select count(*) from payout_commissions c where c.payout_id = p.id)`,
		"approved commissions whose payout is not open or does not contain them": `
			select count(*) from commissions c
			where c.status = 'approved' and c.payout_id is not null and not exists (
				select from payouts p join payout_commissions h on h.payout_id = p.id and h.commission_id = c.id
				where p.id = c.payout_id and p.status in ('draft', 'pending', 'processing'))`,
		"paid commissions outside of paid payouts": `
			select count(*) from commissions c
			where c.status = 'paid' and not exists (select from payouts p where p.id = c.payout_id and p.status = 'paid')`,
		"commissions in two payouts that are open or paid": `
			select count(*) from (
				select h.commission_id from payout_commissions h join payouts p on p.id = h.payout_id
				where p.status in ('draft', 'pending', 'processing', 'paid') group by 1 having count(*) > 1) twice`,
		"batches whose status does not match their payouts": `
			select count(*) from (
				select b.status, (b.completed_at is not null) as ended, count(*) filter (where p.status = 'draft') as draft,
					count(*) filter (where p.status in ('pending', 'processing')) as open, count(*) filter (where p.status in ('processing', 'paid')) as sent,
					count(*) filter (where p.status = 'failed') as failed, count(*) filter (where p.status = 'paid') as paid
				from payout_batches b join payouts p on p.batch_id = b.id group by b.id, b.workspace_id
			) s where ended <> (draft + open = 0) or status <> case
				when draft > 0 then 'draft' when open > 0 and sent > 0 then 'processing' when open > 0 then 'confirmed'
				when failed > 0 then 'partially_failed' when paid > 0 then 'completed' else 'canceled' end`,
	} {
		if n := f.Count(sql); n != 0 {
			f.Errorf("%d %s", n, violation)
		}
	}
}
