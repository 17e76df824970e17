package ledger_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/ledger"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
	ledgers "github.com/tributary-hq/tributary/storage/postgres/ledger"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// closeBooks closes the books of the shop's workspace up to a time, as the service does.
func (f *fixture) closeBooks(until time.Time) error {
	ctx := f.Context()
	return f.DB.InTx(ctx, func(tx *postgres.Tx) error {
		w, err := accounts.LockSettings(ctx, tx, f.Scope.Workspace)
		if err != nil {
			return err
		}
		if err := postgres.LockBooks(ctx, tx, w.ID); err != nil {
			return err
		}
		w.BooksClosedUntil = &until
		return accounts.UpdateWorkspace(ctx, tx, w)
	})
}

func (f *fixture) mustCloseBooks(until time.Time) {
	f.Helper()
	if err := f.closeBooks(until); err != nil {
		f.Fatal(err)
	}
}

func bonusOf(p pgtest.Participant, at time.Time) ledger.Entry {
	return ledger.Entry{
		ID: affiliate.NewID[ledger.EntryID](at), Scope: p.Scope, Program: p.Program, Participant: p.ID, Partner: p.Partner,
		Type: ledger.EntryBonus, AmountCents: 1, Currency: "EUR", CreatedBy: "system", CreatedAt: at,
	}
}

// After the books were closed, no entry with an earlier date appears, even if a transaction
// took its date before and commits later. The transactions here take their date, wait, add
// their entry, and wait again before they commit.
func TestCloseBooks_WaitsForTransactionsThatAddEntries(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p := f.Join("Jane")
	var done atomic.Bool
	var writers sync.WaitGroup
	for range 6 {
		writers.Go(func() {
			for !done.Load() {
				entry := bonusOf(p, time.Now().UTC())
				time.Sleep(rand.N(8 * time.Millisecond)) //nolint:gosec // no secret
				err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
					if err := ledgers.Insert(f.Context(), tx, entry); err != nil {
						return err
					}
					time.Sleep(rand.N(8 * time.Millisecond)) //nolint:gosec // no secret
					return nil
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	type period struct {
		until time.Time
		sum   string
	}
	sumBefore := func(until time.Time) string {
		return f.Texts(`select count(*) || ' entries, ' || coalesce(sum(hashtext(id::text)), 0) from ledger_entries where created_at < $1`, until)[0]
	}
	var periods []period
	redated := `select count(*) from ledger_entries where occurred_at < created_at`
	for len(periods) < 60 || f.Count(redated) < 10 && len(periods) < 1000 {
		until := time.Now().UTC().Truncate(time.Millisecond)
		f.mustCloseBooks(until)
		periods = append(periods, period{until, sumBefore(until)})
		time.Sleep(3 * time.Millisecond)
	}
	done.Store(true)
	writers.Wait()
	for i, period := range periods {
		if got := sumBefore(period.until); got != period.sum {
			t.Errorf("closing %d of %d: the closed period had %s, and has %s now", i+1, len(periods), period.sum, got)
		}
	}
	if n := f.Count(redated); n < 10 {
		t.Errorf("%d entries were moved into the open period, want at least 10: the transactions have not overlapped", n)
	}
	if n := f.Count(`select count(*) from ledger_entries where created_at < occurred_at`); n != 0 {
		t.Errorf("%d entries are dated before their cause", n)
	}
}

func TestCloseBooks_FailsWhileATransactionDoesNotEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p, colleague := f.Join("Jane"), f.Join("Jill")
	other := f.NewShop(f.Scope.Mode).Join("Joe")
	added, end, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	endTransaction := sync.OnceFunc(func() { close(end) })
	t.Cleanup(endTransaction)
	go func() {
		ended <- f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
			if err := ledgers.Insert(f.Context(), tx, bonusOf(p, pgtest.Noon)); err != nil {
				return err
			}
			close(added)
			<-end
			return nil
		})
	}()
	<-added
	var pgErr *pgconn.PgError
	if err := f.closeBooks(pgtest.Noon.Add(time.Hour)); !errors.As(err, &pgErr) || pgErr.Code != "55P03" {
		t.Errorf("closing the books during a transaction returned %v, want the error code 55P03", err)
	}
	// The failed attempt has closed nothing and blocks nothing. The entries are of other
	// participants, because the transaction has locked a row of the balance of p.
	f.addToLedger(bonusOf(colleague, pgtest.Noon))
	f.addToLedger(bonusOf(other, pgtest.Noon))
	endTransaction()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	f.mustCloseBooks(pgtest.Noon.Add(time.Hour))
	if n := f.Count(`select count(*) from ledger_entries where created_at = $1 and occurred_at is null`, pgtest.Noon); n != 3 {
		t.Errorf("%d entries have their own date, want 3", n)
	}
}

// The database itself dates entries, so every insert stays out of closed periods.
func TestLedger_DatesEntriesIntoTheOpenPeriod(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	p, test := f.Join("Jane"), f.InOtherMode().Join("Joe")
	other := f.NewShop(f.Scope.Mode).Join("Jim")
	closed, sale := pgtest.Noon.Add(-time.Hour), pgtest.Noon.AddDate(0, 0, -9)
	f.mustCloseBooks(closed)
	withSale := bonusOf(p, closed.Add(-time.Second))
	withSale.OccurredAt = &sale
	f.addToLedger(
		bonusOf(p, closed.Add(-time.Second)), withSale, bonusOf(p, closed), bonusOf(p, pgtest.Noon),
		bonusOf(test, closed.Add(-time.Minute)), bonusOf(other, closed.Add(-time.Minute)))
	f.Exec(`
		insert into ledger_entries (workspace_id, id, mode, program_id, participant_id, partner_id, type, amount_cents, currency, created_by, created_at)
		values ($1, gen_random_uuid(), $2, $3, $4, $5, 'bonus', 1, 'EUR', 'system', $6)`,
		p.Scope.Workspace, p.Scope.Mode, p.Program, p.ID, p.Partner, closed.Add(-2*time.Second))
	got := fmt.Sprint(f.Texts(`
		select t.partner_name || ' ' || to_char(l.created_at, 'HH24:MI:SS') || coalesce(' of ' || to_char(l.occurred_at, 'DD HH24:MI:SS'), '')
		from ledger_entries l join participants t on t.id = l.participant_id order by 1`))
	want := "[Jane 11:00:00 Jane 11:00:00 of 01 12:00:00 Jane 11:00:00 of 10 10:59:58 Jane 11:00:00 of 10 10:59:59 Jane 12:00:00 Jim 10:59:00 Joe 11:00:00 of 10 10:59:00]"
	if got != want {
		t.Errorf("the entries are dated %s\nwant %s", got, want)
	}
}
