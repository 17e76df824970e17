package payout_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/affiliate/payout"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/servertest"
	payouts "github.com/tributary-hq/tributary/storage/postgres/payout"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

func payPalAccount(address string) payout.Account {
	return payout.Account{Method: payout.PayPal, Account: address}
}

// A change of the payout method after the confirmation must not redirect the payout, not
// even if it fails and is retried.
func TestPayout_KeepsTheAccountOfItsConfirmation(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	f.addCommission(anna, 500)
	b := f.mustCreateBatch()
	f.confirm(b)
	f.setMethod(anna, payout.Account{Method: payout.BankTransfer, Account: "DE89370400440532013000", Holder: "Mallory"})
	id := f.onlyPayout(b).Id
	wantAccount := func(when string) {
		t.Helper()
		f.wantRows(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id}, []int{8, 9}, "method|account", "paypal|Anna@example.com")
		if p := f.payout(id); p.GetAccountHint() != "A***@example.com" || p.Method != affiliatev1.PayoutMethod_PAYOUT_METHOD_PAYPAL {
			t.Errorf("%s the payout has the method %v and the account %q, want those of the confirmation", when, p.Method, p.GetAccountHint())
		}
	}
	wantAccount("after the change")
	f.mustProcess(b)
	wantAccount("after the processing")
	f.mustMove(id, "failed")
	f.mustMove(id, "retry")
	wantAccount("after the retry")
	f.mustMove(id, "paid")
	if hint := f.payout(id).GetAccountHint(); hint != "A***@example.com" {
		t.Errorf("after the payment the payout has the account hint %q, want A***@example.com", hint)
	}
	f.checkConsistency()
}

func TestPayout_AccountIsDeletedAfterThirtyDays(t *testing.T) {
	f := newFixture(t)
	for _, name := range []string{"Anna", "Bert", "Carla"} {
		f.addCommission(f.partner(name), 500)
	}
	b := f.confirm(f.mustCreateBatch())
	details := f.payouts(b)
	f.mustMove(details[0].Id, "paid")
	f.mustMove(details[1].Id, "cancel")
	f.WantCount(0, "accounts of canceled payouts", `select count(*) from payouts where status = 'canceled' and account is not null`)
	remove := func(at time.Time, want int64) {
		t.Helper()
		if n, err := payouts.DeleteAccounts(t.Context(), f.DB, at.Add(-payout.AccountKept), 10); err != nil || n != want {
			t.Errorf("DeletePayoutAccounts deleted %d accounts (%v), want %d", n, err, want)
		}
	}
	remove(f.Now().Add(payout.AccountKept), 0)
	remove(f.Now().Add(payout.AccountKept+time.Millisecond), 1)
	f.WantCount(1, "stored accounts, of the pending payout", `select count(*) from payouts where account is not null`)
	for _, p := range f.payouts(b) {
		if p.AccountHint == nil {
			t.Errorf("the payout with the status %v has no account hint", p.Status)
		}
	}
}

func TestPayout_LeavesOutPartnersWithAChangedAccount(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	f.addCommission(anna, 500)
	draft := f.mustCreateBatch()
	f.setMethod(anna, payPalAccount("mallory@example.com"))
	// The change concerns the draft too, because a draft has no account yet.
	f.confirm(draft)
	if got, want := f.onlyPayout(draft).Status, affiliatev1.PayoutStatus_PAYOUT_STATUS_CANCELED; got != want {
		t.Errorf("the draft of a partner with a changed account became %v, want %v", got, want)
	}
	wantExclusion := func(want affiliatev1.PayoutExclusion) {
		t.Helper()
		if got := f.preview().Data[0].ExcludedBecause; got != want {
			t.Errorf("the preview has the exclusion %v, want %v", got, want)
		}
	}
	wantExclusion(affiliatev1.PayoutExclusion_PAYOUT_EXCLUSION_PAYOUT_ACCOUNT_CHANGED)
	f.clock.Advance(payout.AccountHold - time.Millisecond)
	wantExclusion(affiliatev1.PayoutExclusion_PAYOUT_EXCLUSION_PAYOUT_ACCOUNT_CHANGED)
	if _, err := f.createBatch(); err == nil {
		t.Error("CreatePayoutBatch paid a partner with a changed account")
	}
	f.clock.Advance(time.Millisecond)
	wantExclusion(affiliatev1.PayoutExclusion_PAYOUT_EXCLUSION_UNSPECIFIED)
	f.confirm(f.mustCreateBatch())
	f.checkConsistency()
}

// A bonus after the confirmation must not raise a payout that a member has already seen.
func TestPayout_NeverRises(t *testing.T) {
	f := newFixture(t)
	anna := f.partner("Anna")
	f.addCommission(anna, 500)
	b := f.mustCreateBatch()
	bonus := func() { f.addEntry(anna, ledger.EntryBonus, 100) }
	wantAmount := func(when string, want int64) {
		t.Helper()
		if got := f.onlyPayout(b).AmountCents; got != want {
			t.Errorf("%s the payout has the amount %d, want %d", when, got, want)
		}
		f.checkConsistency()
	}
	bonus()
	f.confirm(b)
	wantAmount("after the confirmation", 500)
	bonus()
	f.mustProcess(b)
	wantAmount("after the processing", 500)
	id := f.onlyPayout(b).Id
	f.mustMove(id, "failed")
	f.mustMove(id, "retry")
	wantAmount("after the retry", 500)
	f.mustMove(id, "failed")
	f.addEntry(anna, ledger.EntryAdjustment, -250)
	f.mustMove(id, "retry")
	wantAmount("after a debt", 450)
	f.mustMove(id, "paid")
	f.wantBalance(anna, 0)
}

// requireSecondPerson sets the limit above which two members must confirm a batch.
func (f *fixture) requireSecondPerson(aboveCents int64) {
	f.Helper()
	f.Exec(`update workspaces set second_person_above_cents = $2 where id = $1`, f.Scope.Workspace, aboveCents)
}

// asOtherFinance returns the context of a call by another member with the role finance.
func (f *fixture) asOtherFinance() context.Context {
	return servertest.AsMember(f, f.Scope, f.NewMember(f.Scope.Workspace, affiliate.RoleFinance, pgtest.Row{"name": "Second Person"}), affiliate.RoleFinance)
}

func (f *fixture) confirmAs(ctx context.Context, b *affiliatev1.PayoutBatch) (*affiliatev1.PayoutBatch, error) {
	return f.service.ConfirmPayoutBatch(ctx, &affiliatev1.ConfirmPayoutBatchRequest{BatchId: b.Id})
}

func TestConfirmPayoutBatch_NeedsASecondPerson(t *testing.T) {
	f := newFixture(t)
	f.requireSecondPerson(499)
	f.addCommission(f.partner("Anna"), 500)
	b := f.mustCreateBatch()
	awaiting := f.confirm(b)
	servertest.WantFields(t, "the first confirmation", awaiting, &affiliatev1.PayoutBatch{
		Status: affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_AWAITING_APPROVAL, ByStatus: &affiliatev1.PayoutCounts{Draft: 1},
		FirstConfirmedBy: new(f.Owner.String()), FirstConfirmedAt: server.Timestamp(f.Now()), FirstConfirmedByName: awaiting.CreatedByName,
	})
	if awaiting.ConfirmedBy != nil || awaiting.GetCreatedByName() == "" {
		t.Errorf("the batch is confirmed by %v and created by %q, want no confirmation and a name", awaiting.ConfirmedBy, awaiting.GetCreatedByName())
	}
	f.WantCount(1, "notifications about the batch", `select count(*) from notifications where type = 'payout_batch.awaiting_approval' and resource_id = $1`, b.Id)

	// The status and the payouts do not change until another person confirms.
	_, err := f.confirmAs(f.asFinance(), b)
	requireStateRefusal(t, err, "awaiting_approval")
	_, err = f.process(b)
	requireStateRefusal(t, err, "awaiting_approval")
	_, err = f.export(&affiliatev1.ExportPayoutBatchRequest{BatchId: b.Id})
	requireStateRefusal(t, err, "awaiting_approval")
	_, err = f.move(f.onlyPayout(b).Id, "paid")
	requireStateRefusal(t, err, "draft")
	f.requireSecondPerson(1_000_000) // a later change does not concern the batch
	_, err = f.confirmAs(f.asFinance(), b)
	requireStateRefusal(t, err, "awaiting_approval")

	confirmed, err := f.confirmAs(f.asOtherFinance(), b)
	if err != nil {
		t.Fatal(err)
	}
	if confirmed.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED || confirmed.GetFirstConfirmedBy() != f.Owner.String() ||
		confirmed.GetConfirmedByName() != "Second Person" || confirmed.GetConfirmedBy() == f.Owner.String() {
		t.Errorf("the second confirmation returned %v, want a confirmed batch with the names of both persons", confirmed)
	}
	if got, want := f.AuditActions("payout_batch", b.Id), []string{"payout_batch.create", "payout_batch.confirm", "payout_batch.confirm"}; !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
		t.Errorf("the audit log has %q, want %q", got, want)
	}
	f.mustProcess(b)
	f.checkConsistency()
}

func TestConfirmPayoutBatch_NeedsOnePersonUpToTheLimit(t *testing.T) {
	f := newFixture(t)
	f.requireSecondPerson(500)
	f.addCommission(f.partner("Anna"), 500)
	f.addCommission(f.partner("Yuko"), 500, inCurrency("JPY")) // the limit is for each currency
	if got, want := f.confirm(f.mustCreateBatch()).Status, affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED; got != want {
		t.Errorf("the batch became %v, want %v", got, want)
	}
}

// A member could otherwise avoid the limit with several small batches, by their programmes or
// cutoffs.
func TestConfirmPayoutBatch_CountsBatchesOfTheLastDay(t *testing.T) {
	f := newFixture(t)
	f.requireSecondPerson(1000)
	awaiting, confirmed := affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_AWAITING_APPROVAL, affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED
	partners := 0
	confirm := func(what string, cents int64, currency string, want affiliatev1.PayoutBatchStatus) *affiliatev1.PayoutBatch {
		t.Helper()
		partners++
		f.addCommission(f.partner("P"+strconv.Itoa(partners)), cents, inCurrency(currency))
		b := f.confirm(f.mustCreateBatch())
		if b.Status != want {
			t.Errorf("%s became %v, want %v", what, b.Status, want)
		}
		return b
	}
	confirm("the first batch", 600, "EUR", confirmed)
	f.clock.Advance(time.Hour)
	confirm("a batch in another currency", 600, "JPY", confirmed)
	confirm("a batch up to the limit", 400, "EUR", confirmed)
	last := confirm("a batch above the limit", 1, "EUR", awaiting)
	if _, err := f.confirmAs(f.asOtherFinance(), last); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(23*time.Hour - time.Millisecond)
	canceled := confirm("a batch in the 24 hours", 1, "EUR", awaiting)
	if _, err := f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: canceled.Id}); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Millisecond)
	// 401 cents of the last day, 598 cents, and the cent of the canceled payout.
	large := confirm("a batch 24 hours after the first one", 598, "EUR", confirmed)
	if _, err := f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: large.Id}); err != nil {
		t.Fatal(err)
	}
	again := f.confirm(f.mustCreateBatch())
	if again.Status != confirmed {
		t.Errorf("after the cancellation the batch became %v, want %v", again.Status, confirmed)
	}
	f.checkConsistency()
}

// Both confirmations begin before one of them has ended. The lock of the test on the
// participants keeps a confirmation from ending.
func TestConfirmPayoutBatch_ParallelConfirmationsShareTheLimit(t *testing.T) {
	f := newFixture(t)
	f.requireSecondPerson(999)
	var batches []*affiliatev1.PayoutBatch
	for _, name := range []string{"Anna", "Bert"} {
		f.addCommission(f.partner(name), 500)
		batches = append(batches, f.mustCreateBatch())
	}
	conn, err := pgx.ConnectConfig(t.Context(), f.SQL.Config().ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select from participants where workspace_id = $1 for update`, f.Scope.Workspace); err != nil {
		t.Fatal(err)
	}
	ctx := f.asFinance()
	statuses := make([]affiliatev1.PayoutBatchStatus, len(batches))
	var calls sync.WaitGroup
	for i, b := range batches {
		calls.Go(func() {
			confirmed, err := f.confirmAs(ctx, b)
			if err != nil {
				t.Error(err)
			}
			statuses[i] = confirmed.GetStatus()
		})
	}
	pgtest.Eventually(t, "both confirmations wait for a lock", func() bool {
		return f.Count(`select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`) == 2
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	slices.Sort(statuses)
	want := []affiliatev1.PayoutBatchStatus{affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED, affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_AWAITING_APPROVAL}
	if slices.Sort(want); !slices.Equal(statuses, want) {
		t.Errorf("the batches became %v, want %v", statuses, want)
	}
}

// A member could otherwise confirm twice: once in person and once with a service token.
func TestConfirmPayoutBatch_ServiceTokenIsNoSecondPerson(t *testing.T) {
	f := newFixture(t)
	f.requireSecondPerson(0)
	creator := f.NewMember(f.Scope.Workspace, affiliate.RoleOwner)
	asToken := func() context.Context {
		return server.WithPrincipal(t.Context(), server.Principal{
			Kind: server.ServiceToken, Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, Role: affiliate.RoleFinance,
			Service: &account.ServiceToken{ID: affiliate.NewID[affiliate.ServiceTokenID](f.Now()), CreatedBy: creator, AllowPayouts: true},
		})
	}
	f.addCommission(f.partner("Anna"), 500)
	b := f.mustCreateBatch()
	if _, err := f.confirmAs(asToken(), b); err != nil {
		t.Fatal(err)
	}
	for name, ctx := range map[string]context.Context{
		"the token again": asToken(), "the creator of the token": servertest.AsMember(t, f.Scope, creator, affiliate.RoleOwner),
	} {
		_, err := f.confirmAs(ctx, b)
		requireStateRefusal(t, err, "awaiting_approval")
		if t.Failed() {
			t.Fatal(name)
		}
	}
	if _, err := f.confirmAs(f.asFinance(), b); err != nil {
		t.Fatal(err)
	}

	f.addCommission(f.partner("Bert"), 500)
	b = f.confirm(f.mustCreateBatch())
	_, err := f.confirmAs(asToken(), b)
	requireStateRefusal(t, err, "awaiting_approval")
	canceled, err := f.service.CancelPayoutBatch(f.asFinance(), &affiliatev1.CancelPayoutBatchRequest{BatchId: b.Id})
	if err != nil || canceled.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CANCELED {
		t.Errorf("the cancellation of a batch that awaits approval returned %v, %v", canceled.GetStatus(), err)
	}
	f.checkConsistency()
}

// Twenty members confirm a batch at the same time. The first one only requests the
// approval, the second one confirms it, and the others come too late.
func TestConfirmPayoutBatch_InParallelByTwentyPersons(t *testing.T) {
	f := newFixture(t)
	f.requireSecondPerson(0)
	f.addCommission(f.partner("Anna"), 500)
	b := f.mustCreateBatch()
	members := make([]affiliate.UserID, 20)
	for i := range members {
		members[i] = f.NewMember(f.Scope.Workspace, affiliate.RoleFinance)
	}
	succeeded := make([]bool, len(members))
	runParallel(len(members), func(i int) {
		_, err := f.confirmAs(servertest.AsMember(t, f.Scope, members[i], affiliate.RoleFinance), b)
		succeeded[i] = err == nil
		if err != nil && !errors.Is(err, affiliate.Refuse(affiliate.ReasonPayoutState)) {
			t.Errorf("ConfirmPayoutBatch: %v, want PAYOUT_STATE_INVALID", err)
		}
	})
	if n := len(slices.DeleteFunc(succeeded, func(ok bool) bool { return !ok })); n != 2 {
		t.Errorf("%d confirmations succeeded, want 2", n)
	}
	got := f.getBatch(b.Id)
	if got.Status != affiliatev1.PayoutBatchStatus_PAYOUT_BATCH_STATUS_CONFIRMED || got.GetFirstConfirmedBy() == got.GetConfirmedBy() {
		t.Errorf("the batch is %v, confirmed by %s and %s, want confirmed by two persons", got.Status, got.GetFirstConfirmedBy(), got.GetConfirmedBy())
	}
	f.checkConsistency()
}
