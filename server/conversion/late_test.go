package conversion_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// The service makes 1 query for an old click. A fresh click may not be ingested yet, so
// the service repeats the query after each of 5 pauses.
const queriesForFreshClick = 6

func TestReport_FindsFreshClickInTail(t *testing.T) {
	f := newFixture(t)
	stored := f.UnstoredClick(f.pat)
	f.stream.tail = []click.Click{stored}
	f.countLookups(nil)
	r := f.mustReport(purchase("order-1", stored.ID))
	f.wantAttribution(r, "CLICK_MATCHED", f.pat)
	if got := r.GetCommission().GetAmountCents(); got != 3_000 {
		t.Errorf("the conversion earns %d, want 3000", got)
	}
	if got := r.GetAttribution().GetExpiresAt().AsTime(); !got.Equal(stored.ExpiresAt) {
		t.Errorf("the click expires at %v, want %v", got, stored.ExpiresAt)
	}
	f.wantLookups(queriesForFreshClick, 1)
	f.wantRows(0, `awaited_clicks`)
}

// The clock of the collector is ten minutes ahead, so the id has a time in the future. The
// click itself has the time of its entry (package ingest).
func TestReport_FindsClickOfFastCollector(t *testing.T) {
	for name, store := range map[string]func(*fixture, click.Click){
		"in the tail": func(f *fixture, c click.Click) { f.stream.tail = []click.Click{c} },
		"stored":      func(f *fixture, c click.Click) { f.storeLate(c) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			click := f.fastClick()
			store(f, click)
			f.wantAttribution(f.mustReport(purchase("order-1", click.ID)), "CLICK_MATCHED", f.pat)
		})
	}
}

func TestLateClick_OfFastCollector(t *testing.T) {
	f := newFixture(t)
	click := f.fastClick()
	f.wantReason(f.reportUnattributed(purchase("order-1", click.ID)), "CLICK_UNKNOWN")
	f.attribute(f.storeLate(click))
	f.wantRows(1, `conversions where attributed and reason_code = 'CLICK_MATCHED' and participant_id = $1`, f.pat.ID)
	f.wantRows(1, `commissions`)
}

// fastClick returns a click whose id is ten minutes ahead.
func (f *fixture) fastClick() click.Click {
	click := f.UnstoredClick(f.pat)
	click.ID = affiliate.NewID[affiliate.ClickID](f.clock.Now().Add(10 * time.Minute))
	click.ClickedAt, _ = click.ID.Time()
	return click
}

func TestReport_WaitsForIngestion(t *testing.T) {
	f := newFixture(t)
	click := f.UnstoredClick(f.pat)
	f.countLookups(func(n int) {
		if n == 2 {
			f.storeLate(click)
		}
	})
	f.wantAttribution(f.mustReport(purchase("order-1", click.ID)), "CLICK_MATCHED", f.pat)
	f.wantLookups(2, 0)
}

func TestReport_LooksUpOldClickInTailWithoutWait(t *testing.T) {
	f := newFixture(t)
	stored := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	f.stream.tail = []click.Click{stored}
	f.countLookups(nil)
	f.wantAttribution(f.mustReport(purchase("order-1", stored.ID)), "CLICK_MATCHED", f.pat)
	f.wantLookups(1, 1)
}

func TestReport_AwaitsClickThatIsNotInTail(t *testing.T) {
	for name, prepare := range map[string]func(*fixture, click.Click){
		"empty tail":             func(*fixture, click.Click) {},
		"Redis is not available": func(f *fixture, _ click.Click) { f.stream.err = errors.New("connection refused") },
		// The collector did not know the API key or the referral code of this click.
		"unresolved click": func(f *fixture, c click.Click) {
			f.stream.tail = []click.Click{{ID: c.ID, ReceivedAt: c.ReceivedAt}}
		},
		"click of another workspace": func(f *fixture, c click.Click) {
			c.Workspace = f.NewWorkspace()
			f.stream.tail = []click.Click{c}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			click := f.UnstoredClick(f.pat)
			prepare(f, click)
			f.wantReason(f.reportUnattributed(purchase("order-1", click.ID)), "CLICK_UNKNOWN")
			f.wantRows(1, `awaited_clicks where click_id = $1`, click.ID)
		})
	}
}

func TestReport_StopsWaitingWhenContextEnds(t *testing.T) {
	f := newFixture(t)
	ctx, cancel := context.WithCancel(f.asKey())
	f.countLookups(nil)
	f.config.Now = func() time.Time { // the service reads the clock again after the look-up
		if f.clickLookups.Load() > 0 {
			cancel()
		}
		return f.clock.Now()
	}
	f.restart()
	_, err := f.service.ReportConversion(ctx, purchase("order-1", f.UnstoredClick(f.pat).ID))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("ReportConversion returned %v, want %v", err, context.Canceled)
	}
	f.wantLookups(1, 0)
	f.wantRows(0, `conversions`)
}

func TestLateClick_ParallelJobsAndSweepsAttributeOnce(t *testing.T) {
	f := newFixture(t)
	const conversions, repeats = 5, 8
	var clicks []click.AwaitedClick
	for i := range conversions {
		clicks = append(clicks, f.lateConversion(fmt.Sprint("order-", i)))
	}
	calls := f.parallelCalls()
	for range repeats {
		for _, click := range clicks {
			calls.start("job", func() error { return f.service.AttributeAwaited(t.Context(), click) })
		}
		calls.start("sweep", func() error {
			_, err := f.service.SweepAwaited(t.Context(), click.AwaitedClick{})
			return err
		})
	}
	calls.want(map[string]int{"job": repeats * conversions, "sweep": repeats})

	f.wantRows(conversions, `conversions where attributed and reason_code = 'CLICK_MATCHED' and version = 2 and participant_id = $1`, f.pat.ID)
	f.wantRows(2*conversions, `attribution_decisions`)
	f.wantRows(conversions, `attribution_decisions d join conversions c on c.decision_id = d.id
		join attribution_decisions first on first.id = d.supersedes and first.conversion_id = c.id and not first.attributed`)
	f.wantRows(conversions, `commissions m join conversions c on c.decision_id = m.decision_id where m.amount_cents = 3000`)
	f.wantRows(conversions, `commission_history`)
	f.wantRows(0, `awaited_clicks`)
	f.wantRows(conversions, `events where type = 'conversion.reattributed'`)
	f.wantRows(conversions, `events where type = 'commission.created'`)
	f.wantRows(3*conversions, `events`)

	types, objects := f.Events()
	first := slices.Index(types, "conversion.reattributed")
	if first < 0 {
		t.Fatalf("the events are %q, want conversion.reattributed", types)
	}
	// Other conversions may be attributed at the same time.
	commission := slices.IndexFunc(objects, func(object map[string]any) bool { return object["conversion_id"] == objects[first]["id"] })
	if commission < first || types[commission] != "commission.created" {
		t.Fatalf("the events are %q, want commission.created after conversion.reattributed", types)
	}
	f.wantAttributes(types[first], objects[first], pgtest.Row{"attributed": true, "version": 2})
}

func TestLateClick_AttributesSeveralConversions(t *testing.T) {
	f := newFixture(t)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	const conversions = 130 // more than one batch
	for i := range conversions {
		f.mustReport(purchase(fmt.Sprint("order-", i), click.ID))
	}
	f.attribute(f.storeLate(click))
	f.wantRows(conversions, `commissions`)
	f.wantRows(0, `awaited_clicks`)
}

func TestLateClick_WithoutCommission(t *testing.T) {
	for name, tc := range map[string]struct {
		change     []string // statements that run before the job
		reason     string
		attributed bool
		decisions  int
		events     int
	}{
		"programme paused before the click arrives": {
			[]string{`update programs set status = 'paused'`}, "PROGRAM_INACTIVE", false, 2, 1,
		},
		"participant suspended before the click arrives": {
			[]string{`update participants set status = 'suspended'`}, "PARTICIPANT_NOT_APPROVED", true, 2, 2,
		},
		"click of the other mode": {
			[]string{`update clicks set mode = 'live'`, `update programs set mode = 'live'`, `update participants set mode = 'live'`},
			"CLICK_UNKNOWN", false, 1, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			job := f.lateConversion("order-1")
			for _, statement := range tc.change {
				f.Exec(statement)
			}
			for range 2 {
				f.attribute(job)
			}
			f.wantRows(1, `conversions where reason_code = $1 and attributed = $2`, tc.reason, tc.attributed)
			f.wantRows(tc.decisions, `attribution_decisions`)
			f.wantRows(tc.events, `events`)
			f.wantRows(0, `commissions`)
			f.wantRows(0, `awaited_clicks`)
		})
	}
}

func TestLateClick_FailedConversionDoesNotBlockOthers(t *testing.T) {
	f := newFixture(t)
	stored := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	for _, external := range []string{"order-1", "failing", "order-2"} {
		f.mustReport(purchase(external, stored.ID))
	}
	f.storeLate(stored)
	f.lateConversion("order-3")
	f.mustReport(purchase("expired", f.unknownClick()))
	f.Exec(`update awaited_clicks set expires_at = created_at
		where conversion_id = (select id from conversions where external_transaction_id = 'expired')`)
	f.Exec(`alter table commissions add constraint broken check (external_transaction_id <> 'failing')`)
	if _, err := f.service.SweepAwaited(t.Context(), click.AwaitedClick{}); err == nil {
		t.Error("SweepAwaited returned no error although a conversion failed")
	}
	f.wantRows(3, `commissions`)
	f.wantRows(1, `awaited_clicks`)
	f.Exec(`alter table commissions drop constraint broken`)
	if _, err := f.service.SweepAwaited(t.Context(), click.AwaitedClick{}); err != nil {
		t.Errorf("SweepAwaited after the repair: %v", err)
	}
	f.wantRows(4, `commissions`)
	f.wantRows(0, `awaited_clicks`)
}

// If a user reattributes a conversion while a late attribution runs, the user's decision
// stays in force.
func TestLateClick_DoesNotReplaceUsersDecision(t *testing.T) {
	f := newFixture(t)
	click := f.UnstoredClick(f.pat, f.ago(10*time.Minute))
	other := f.Join("Olga")
	r := f.mustReport(purchase("order-1", click.ID))
	job := f.storeLate(click)
	reattributed := false
	lookedUp := false
	f.useHook(func(sql string, _ []any) error {
		switch {
		case strings.Contains(sql, lookUpClicks):
			lookedUp = true
		case sql == "begin" && lookedUp && !reattributed: // the transaction of the late attribution
			reattributed = true
			f.mustReattribute(r.GetId(), other)
		}
		return nil
	})
	f.attribute(job)
	if !reattributed {
		t.Fatal("AttributeAwaited did not begin a transaction after it looked up the click")
	}
	f.wantRows(1, `conversions where id = $1 and participant_id = $2 and version = 2`, r.GetId(), other.ID)
	f.wantRows(2, `attribution_decisions`)
	f.wantRows(1, `commissions where participant_id = $1`, other.ID)
	f.wantRows(1, `commissions`)
}

func TestLateClick_JobBeforeClickChangesNothing(t *testing.T) {
	f := newFixture(t)
	clickID := f.unknownClick()
	f.mustReport(purchase("order-1", clickID))
	f.attribute(click.AwaitedClick{Workspace: f.Scope.Workspace, Click: clickID})
	f.wantRows(1, `awaited_clicks`)
	f.wantRows(1, `attribution_decisions`)
}

func TestSweep_EndsWaitAfterADay(t *testing.T) {
	f := newFixture(t)
	f.mustReport(purchase("order-1", f.unknownClick()))
	for _, step := range []struct {
		advance time.Duration
		waiting int
	}{{day - time.Minute, 1}, {2 * time.Minute, 0}} {
		f.clock.Advance(step.advance)
		cursor, err := f.service.SweepAwaited(t.Context(), click.AwaitedClick{})
		if err != nil || cursor != (click.AwaitedClick{}) {
			t.Fatalf("SweepAwaited returned the cursor %v, error %v; want the zero cursor, because the sweep has reached the end", cursor, err)
		}
		f.wantRows(step.waiting, `awaited_clicks`)
	}
	f.wantRows(1, `conversions where not attributed`)
}

// The job of a late click is enough to create the commission. If the job is lost, the
// sweep creates the commission.
func TestLateClick_EarnsThroughJobOrSweep(t *testing.T) {
	// prepare returns the periodic jobs that run.
	for name, prepare := range map[string]func(*fixture) []*river.PeriodicJob{
		"job": func(*fixture) []*river.PeriodicJob { return nil },
		"sweep": func(f *fixture) []*river.PeriodicJob {
			f.Exec(`delete from river.river_job`)
			return f.service.PeriodicJobs()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.lateConversion("order-1")
			f.startWorkers(prepare(f))
			pgtest.Eventually(t, "the late click earns a commission", func() bool {
				return f.Count(`select count(*) from commissions`) > 0
			})
			f.wantRows(1, `commissions`)
			f.wantRows(0, `awaited_clicks`)
		})
	}
}

// startWorkers runs the package's workers until the test ends.
func (f *fixture) startWorkers(periodic []*river.PeriodicJob) {
	f.Helper()
	workers := river.NewWorkers()
	f.service.AddWorkers(workers)
	f.StartWorkers(&river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers:           workers,
		PeriodicJobs:      periodic,
		FetchPollInterval: 100 * time.Millisecond,
	})
}
