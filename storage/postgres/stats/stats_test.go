package stats_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/analytics"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// statsFixture is a database with programmes in EUR and their participants. Each
// participant has its own link. A delta is a row of stats_deltas: a change of the totals
// that Fold has not yet added to the totals. Tests insert each delta into
// stats_deltas and into the table truth. From truth, which Fold does not read, they
// compute the expected totals.
type statsFixture struct {
	*fixture
	participants []pgtest.Participant
}

// newStatsFixture creates the given number of workspaces with one programme each. The
// given number of partners takes part in all programmes. The tables of totals are empty,
// so Fold must create their rows.
func newStatsFixture(t *testing.T, workspaces, participants int) *statsFixture {
	t.Helper()
	f := &statsFixture{fixture: newFixture(t)}
	f.participants = f.JoinAllPrograms(workspaces, participants)
	f.Exec(`create table truth (like stats_deltas including defaults)`)
	return f
}

// delta returns a random delta.
func (f *statsFixture) delta() analytics.StatsDelta {
	p := f.participants[rand.IntN(len(f.participants))]
	d := analytics.StatsDelta{
		Scope: p.Scope, Program: p.Program, Participant: p.ID,
		At: f.Now().Add(time.Duration(rand.IntN(5*3600)) * time.Second),
	}
	if rand.IntN(3) > 0 {
		d.Link = &p.Link
	}
	switch rand.IntN(4) {
	case 0:
		d.Signups, d.Conversions = 1, 1
	case 1:
		d.Currency, d.Conversions = []string{"EUR", "USD"}[rand.IntN(2)], 1
		d.RevenueCents, d.CommissionCents = rand.Int64N(10_000), rand.Int64N(1000)
	case 2: // a refund
		d.Currency, d.RevenueCents, d.CommissionCents = []string{"EUR", "USD"}[rand.IntN(2)], -rand.Int64N(1000), -rand.Int64N(100)
	default:
		d.Clicks = 1 + rand.Int64N(3)
	}
	return d
}

// add inserts deltas into stats_deltas and into truth.
func (f *statsFixture) add(ctx context.Context, tx pgx.Tx, deltas ...analytics.StatsDelta) error {
	if err := counters.AddDeltas(ctx, tx, deltas...); err != nil {
		return err
	}
	batch := &pgx.Batch{}
	for _, d := range deltas {
		batch.Queue(`
			insert into truth (workspace_id, id, mode, program_id, participant_id, link_id, currency,
				clicks, signups, conversions, revenue_cents, commission_cents)
			values ($1, gen_random_uuid(), $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)`,
			d.Workspace, d.Mode, d.Program, d.Participant, d.Link, d.Currency,
			d.Clicks, d.Signups, d.Conversions, d.RevenueCents, d.CommissionCents)
	}
	return tx.SendBatch(ctx, batch).Close()
}

// differences is a query that adds the deltas to the totals and compares the sums with
// the expected values, in one snapshot. It returns the number of sums that differ.
const differences = `
	with totals as (
		select workspace_id, participant_id, program_id, sum(clicks) as clicks, sum(signups) as signups,
			sum(conversions) as conversions, sum(revenue_cents) as revenue, sum(commission_cents) as commission
		from (
			select workspace_id, participant_id, program_id, clicks, signups, conversions, revenue_cents, commission_cents from participant_totals
			union all
			select workspace_id, participant_id, program_id, clicks, signups, conversions,
				case currency when 'EUR' then revenue_cents else 0 end, case currency when 'EUR' then commission_cents else 0 end from stats_deltas
		) x group by 1, 2, 3
	), true_totals as (
		select workspace_id, participant_id, program_id, sum(clicks) as clicks, sum(signups) as signups, sum(conversions) as conversions,
			coalesce(sum(revenue_cents) filter (where currency = 'EUR'), 0) as revenue,
			coalesce(sum(commission_cents) filter (where currency = 'EUR'), 0) as commission
		from truth group by 1, 2, 3
	), links as (
		select workspace_id, link_id, sum(clicks) as clicks, sum(conversions) as conversions
		from (
			select workspace_id, link_id, clicks, conversions from link_totals
			union all
			select workspace_id, link_id, clicks, conversions from stats_deltas where link_id is not null
		) x group by 1, 2
	), true_links as (
		select workspace_id, link_id, sum(clicks) as clicks, sum(conversions) as conversions
		from truth where link_id is not null group by 1, 2
	)
	select
		(select count(*) from ((table totals except table true_totals) union all (table true_totals except table totals)) x)
		+ (select count(*) from ((table links except table true_links) union all (table true_links except table links)) x)`

func TestFoldStats_TotalsAreAlwaysExact(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newStatsFixture(t, 2, 5)
	if n := f.Count(`select count(*) from participant_totals`); n != 0 {
		t.Fatal("the test needs missing totals, which folding must create")
	}
	const writers, transactions, folds = 6, 80, 4
	rolledBack := errors.New("rolled back")
	var writing, others sync.WaitGroup
	var folded atomic.Int64

	for range writers {
		writing.Go(func() {
			for range transactions {
				deltas := make([]analytics.StatsDelta, 1+rand.IntN(4))
				for i := range deltas {
					deltas[i] = f.delta()
				}
				err := pgx.BeginFunc(t.Context(), f.SQL, func(tx pgx.Tx) error {
					if err := f.add(t.Context(), tx, deltas...); err != nil {
						return err
					}
					if rand.IntN(5) == 0 {
						return rolledBack
					}
					return nil
				})
				if err != nil && !errors.Is(err, rolledBack) {
					t.Errorf("a writer failed: %v", err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	// repeat calls work until all writers have ended.
	repeat := func(work func()) {
		others.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					work()
				}
			}
		})
	}
	for range folds {
		repeat(func() {
			n, err := counters.Fold(t.Context(), f.DB, 1+rand.IntN(40))
			if err != nil {
				t.Errorf("FoldStats returned %v", err)
			}
			folded.Add(n)
		})
	}
	// Cancel calls at a random time.
	repeat(func() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(3000))*time.Microsecond)
		defer cancel()
		if _, err := counters.Fold(ctx, f.DB, 40); err != nil && ctx.Err() == nil {
			t.Errorf("FoldStats with a short timeout returned %v before the timeout", err)
		}
	})
	// Roll back the transactions of some calls.
	repeat(func() {
		err := pgx.BeginFunc(t.Context(), f.SQL, func(tx pgx.Tx) error {
			if _, err := counters.FoldIn(t.Context(), tx, 20); err != nil {
				return err
			}
			return rolledBack
		})
		if !errors.Is(err, rolledBack) {
			t.Errorf("a fold that is rolled back returned %v, want %v", err, rolledBack)
		}
	})
	comparisons := 0
	repeat(func() {
		var wrong int
		if err := f.SQL.QueryRow(t.Context(), differences).Scan(&wrong); err != nil {
			t.Errorf("compare the sums with the expected values: %v", err)
		}
		if comparisons++; wrong != 0 {
			t.Errorf("in comparison %d, %d sums differ from the expected values, want 0", comparisons, wrong)
		}
	})

	writing.Wait()
	close(done)
	others.Wait()
	for f.Count(`select count(*) from stats_deltas`) > 0 {
		n, err := counters.Fold(t.Context(), f.DB, 1000)
		if err != nil {
			t.Fatal(err)
		}
		folded.Add(n)
	}
	if wrong := f.Count(differences); wrong != 0 {
		t.Errorf("after all deltas were folded, %d sums differ from the expected values, want 0", wrong)
	}
	if total := f.Count(`select count(*) from truth`); total == 0 || comparisons == 0 || folded.Load() > int64(total) {
		t.Errorf("%d deltas were inserted, %d were folded and %d comparisons were made, want no more folded than inserted", total, folded.Load(), comparisons)
	}
}

// Concurrent calls that update the same rows of the totals must not deadlock. Postgres
// would report a deadlock as an error.
func TestFoldStats_ConcurrentCallsDoNotDeadlock(t *testing.T) {
	f := newStatsFixture(t, 2, 60)
	const rounds, folds = 4, 4
	for round := range rounds {
		// In every second round, the deltas have no links. Then the calls wait for the
		// rows of participants and not for the rows of links.
		f.Exec(`insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, currency, clicks)
			select t.workspace_id, gen_random_uuid(), t.mode, t.program_id, t.id, case when $1 then l.id end, '', 1
			from participants t join links l on l.workspace_id = t.workspace_id and l.participant_id = t.id, generate_series(1, 30)`, round%2 == 0)
		f.Exec(`insert into truth select * from stats_deltas`)
		var wg sync.WaitGroup
		for range folds {
			wg.Go(func() {
				for folded := int64(1); folded > 0; {
					var err error
					if folded, err = counters.Fold(t.Context(), f.DB, 300); err != nil {
						t.Errorf("FoldStats returned %v", err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
	if wrong, remaining := f.Count(differences), f.Count(`select count(*) from stats_deltas`); wrong != 0 || remaining != 0 {
		t.Errorf("%d sums differ from the expected values and %d deltas remain, want 0 and 0", wrong, remaining)
	}
}

func TestFoldStats_SkipsLockedDeltas(t *testing.T) {
	f := newStatsFixture(t, 1, 3)
	write := func(n int) {
		t.Helper()
		err := pgx.BeginFunc(t.Context(), f.SQL, func(tx pgx.Tx) error {
			for range n {
				if err := f.add(t.Context(), tx, f.delta()); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	fold := func(limit int, want int64) {
		t.Helper()
		if folded, err := counters.Fold(t.Context(), f.DB, limit); err != nil || folded != want {
			t.Errorf("FoldStats folded %d deltas, %v, want %d", folded, err, want)
		}
	}
	fold(10, 0)
	write(25)
	fold(10, 10)

	// Fold must skip deltas that another transaction has locked, without waiting.
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), `select id from stats_deltas limit 6 for update`); err != nil {
		t.Fatal(err)
	}
	fold(10, 9)
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	fold(10, 6)
	if wrong := f.Count(differences); wrong != 0 {
		t.Errorf("%d sums differ from the expected values, want 0", wrong)
	}
}

// If the participant or link of a delta has been deleted, Fold must still fold the
// other deltas.
func TestFoldStats_DeletesDeltasOfDeletedParticipants(t *testing.T) {
	f := newStatsFixture(t, 1, 2)
	remaining, deleted := f.participants[0], f.participants[1]
	deltaOf := func(p pgtest.Participant, link *affiliate.LinkID) analytics.StatsDelta {
		return analytics.StatsDelta{Scope: p.Scope, Program: p.Program, Participant: p.ID, Link: link, At: f.Now(), Clicks: 1}
	}
	unknownLink := affiliate.NewID[affiliate.LinkID](f.Now())
	err := pgx.BeginFunc(t.Context(), f.SQL, func(tx pgx.Tx) error {
		return counters.AddDeltas(t.Context(), tx, deltaOf(remaining, &remaining.Link), deltaOf(remaining, &unknownLink), deltaOf(deleted, &deleted.Link))
	})
	if err != nil {
		t.Fatal(err)
	}
	f.Exec(`delete from links where participant_id = $1`, deleted.ID)
	f.Exec(`delete from participants where id = $1`, deleted.ID)
	if folded, err := counters.Fold(t.Context(), f.DB, 10); err != nil || folded != 3 {
		t.Fatalf("FoldStats folded %d deltas, %v, want 3", folded, err)
	}
	if n := f.Count(`select sum(clicks) from participant_totals where participant_id = $1`, remaining.ID); n != 2 {
		t.Errorf("the remaining participant has %d clicks, want 2", n)
	}
	if n := f.Count(`select sum(clicks) from link_totals where link_id = $1`, remaining.Link); n != 1 {
		t.Errorf("the remaining link has %d clicks, want 1", n)
	}
	if n := f.Count(`select count(*) from participant_totals where participant_id = $1`, deleted.ID); n != 0 {
		t.Errorf("participant_totals has %d rows of the deleted participant, want 0", n)
	}
}

func TestStatsStatements_UseIndexes(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newStatsFixture(t, 500, 20)
	partner := f.participants[0].Partner // takes part in only a few programmes
	f.Exec(`delete from links using participants t where t.id = participant_id and t.partner_id = $1 and t.workspace_id > '0a000000-0000-0000-0000-000000000000'`, partner)
	f.Exec(`delete from participants where partner_id = $1 and workspace_id > '0a000000-0000-0000-0000-000000000000'`, partner)
	f.ExecWithoutForeignKeys(`insert into participant_totals (workspace_id, participant_id, program_id) select workspace_id, id, program_id from participants`)
	f.ExecWithoutForeignKeys(`insert into link_totals (workspace_id, link_id) select workspace_id, id from links`)
	f.ExecWithoutForeignKeys(`insert into stats_deltas (workspace_id, id, mode, program_id, participant_id, link_id, currency)
		select t.workspace_id, gen_random_uuid(), 'live', t.program_id, t.id, null, 'EUR' from participants t, generate_series(1, 3)`)
	f.VacuumAnalyze()
	f.CheckStatsPlan("fold", f.Plan(counters.FoldStatsSQL, 20_000))
}
