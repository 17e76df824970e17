package testmode_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/affiliate/program"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/server/servertest"
	clicks "github.com/tributary-hq/tributary/storage/postgres/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	counters "github.com/tributary-hq/tributary/storage/postgres/stats"
)

// Of 20 requests at the same time, one deletes the data. The others are refused, unless
// they begin after its end and find nothing.
func TestDeleteTestData_RunsOnceAtATime(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	populate(f.Fixture, f.Shop, "test")
	var mu sync.Mutex
	var wg sync.WaitGroup
	deletions, refused := 0, 0
	for range 20 {
		wg.Go(func() {
			response, err := f.reset(f.service)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err != nil:
				if pgtest.ReasonOf(t, err) != affiliate.ReasonResetInProgress {
					t.Errorf("DeleteTestData returned %v", err)
				}
				refused++
			case response.GetDeleted() == nil:
				t.Errorf("DeleteTestData returned %v, want what it has deleted", response)
			case response.GetDeleted().GetPrograms() > 0:
				deletions++
			}
		})
	}
	wg.Wait()
	if deletions != 1 || refused == 0 {
		t.Errorf("%d requests deleted the data and %d were refused, want 1 and at least 1", deletions, refused)
	}
}

// Conversions that are reported during deletions are either deleted with everything that
// follows from them, or recorded completely. No request fails with an internal error.
func TestDeleteTestData_LeavesNoOrphansOfConcurrentRequests(t *testing.T) {
	pgtest.Slow(t)
	t.Parallel()
	f := newFixture(t)
	live := f.InOtherMode()
	rules := pgtest.Rules(func(r *program.Rules) { r.HoldDays, r.AutoApproval = 0, true })
	for _, s := range []*pgtest.Shop{f.Shop, live} {
		f.Exec(`update programs set rules = $2, rules_version = 4 where id = $1`, s.Program, rules["rules"])
	}
	conversions := conversion.New(conversion.Config{
		DB: f.DB, HashKeys: affiliate.HashKeys{[]byte("k")}, Now: f.clock.Now, Log: slog.New(slog.DiscardHandler),
	})
	report := func(p pgtest.Participant, click affiliate.ClickID, external string) error {
		_, err := conversions.ReportConversion(servertest.AsSecretKey(t, p.Scope), &affiliatev1.ReportConversionRequest{
			EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: external, CustomerId: &external,
			AmountCents: new(int64(10_000)), Currency: new("eur"), ClickId: new(click.String()),
		})
		return err
	}
	const rounds, reporters = 8, 6
	livePat := live.Join("Pat")
	liveClick := live.NewClick(livePat).ID
	for round := range rounds {
		f.Program = f.NewProgram(f.Scope, rules)
		pat := f.Join("Pat")
		f.NewPromoCode(pat, fmt.Sprintf("CODE%d", round))
		click := f.NewClick(pat).ID
		stop := make(chan struct{})
		var wg sync.WaitGroup
		for n := range reporters {
			wg.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
					}
					if err := report(pat, click, fmt.Sprintf("%d-%d-%d", round, n, i)); err != nil {
						t.Errorf("a report during a deletion failed: %v", err)
					}
					if err := report(livePat, liveClick, fmt.Sprintf("%d-%d-%d", round, n, i)); err != nil {
						t.Errorf("a report in live mode failed: %v", err)
					}
				}
			})
		}
		pgtest.Eventually(t, "conversions are recorded", func() bool {
			return f.Count(`select count(*) from conversions where mode = 'test' and program_id = $1`, f.Program) > 3
		})
		response, err := f.reset(f.service)
		close(stop)
		wg.Wait()
		if err != nil {
			t.Fatalf("DeleteTestData returned %v", err)
		}
		if response.GetDeleted() == nil {
			f.runJobs(f.service)
			f.waitUntilFinished()
		}
		for _, table := range []string{"programs", "participants", "commissions", "ledger_entries", "customer_payments", "stats_deltas", "promo_codes"} {
			f.WantCount(0, "rows of test mode in "+table, `select count(*) from `+table+` where mode = 'test'`)
		}
		f.WantCount(0, "conversions of the deleted programme", `select count(*) from conversions where mode = 'test' and program_id is not null`)
		f.WantCount(0, "decisions without a conversion", `
			select count(*) from attribution_decisions d where not exists (select from conversions c where c.workspace_id = d.workspace_id and c.id = d.conversion_id)`)
	}
	if _, err := counters.Fold(t.Context(), f.DB, 100_000); err != nil {
		t.Fatal(err)
	}
	f.wantCleanAccounts()
}

// A transaction that stores clicks may have begun before the deletion. The deletion waits
// for it, and deletes its clicks. A later transaction drops clicks of before the deletion.
func TestDeleteTestData_MissesNoClicks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	jane := f.Join("Jane")
	early, late := f.UnstoredClick(jane), f.UnstoredClick(jane)
	live := f.InOtherMode()
	liveClick := live.UnstoredClick(live.Join("Jane"))
	tx, err := f.SQL.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	_, err = tx.Exec(t.Context(), `
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, link_id, referral_code, received_at, expires_at, created_at, consent, is_bot)
		values ($1, $2, $3, 'test', $4, $5, gen_random_uuid(), 'x', $3, $3, $3, 'granted', false)`,
		f.Scope.Workspace, early.ID, early.ClickedAt, f.Program, jane.ID)
	if err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Minute)
	done := make(chan struct{})
	go func() {
		defer close(done)
		f.mustReset()
	}()
	pgtest.Eventually(t, "the deletion has stored its time", func() bool {
		return f.Count(`select count(*) from workspaces where test_data_reset_at is not null`) == 1
	})
	select {
	case <-done:
		t.Error("the deletion did not wait for the transaction that writes clicks")
	case <-time.After(50 * time.Millisecond):
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	<-done
	f.WantCount(0, "clicks", `select count(*) from clicks`)

	next := f.UnstoredClick(jane, func(c *click.Click) { c.ReceivedAt = c.ReceivedAt.Add(time.Second) })
	for range 2 { // the second call takes the path for clicks that are already stored
		if err := clicks.Store(t.Context(), f.DB, []click.Click{late, liveClick, next}); err != nil {
			t.Fatal(err)
		}
		f.WantCount(2, "clicks: that of live mode and the one after the deletion",
			`select count(*) from clicks where id in ($1, $2)`, liveClick.ID, next.ID)
		f.WantCount(2, "all clicks", `select count(*) from clicks`)
	}
	f.WantCount(2, "counted clicks", `select sum(clicks) from stats_deltas`)
}
