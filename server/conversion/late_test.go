package conversion_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestReport_FindsFreshClickInTail(t *testing.T) {
	w := newWorld(t)
	click := w.click()
	w.tail.clicks = append(w.tail.clicks, click)
	r := w.mustReport(purchase("order-1", click.ID))
	if r.GetAttribution().GetReasonCode() != "CLICK_MATCHED" || r.GetCommission().GetAmountCents() != 3_000 ||
		!r.GetAttribution().GetExpiresAt().AsTime().Equal(click.ExpiresAt) {
		t.Errorf("%v", r)
	}
	if n := w.store.looks.Load(); n != 6 {
		t.Errorf("%d look-ups in Postgres", n)
	}
	w.wantCount(0, `awaited_clicks`)
}

func TestReport_WaitsForIngestion(t *testing.T) {
	w := newWorld(t)
	click := w.click()
	go func() {
		for w.store.looks.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		w.storeClick(click)
	}()
	if r := w.mustReport(purchase("order-1", click.ID)); r.GetAttribution().GetReasonCode() != "CLICK_MATCHED" {
		t.Errorf("%v", r)
	}
	if w.tail.looks.Load() != 0 {
		t.Error("the tail was read for a stored click")
	}
}

func TestReport_LooksUpOldClickInTailWithoutWait(t *testing.T) {
	w := newWorld(t)
	click := w.clickAt(time.Now().Add(-10 * time.Minute))
	w.tail.clicks = append(w.tail.clicks, click)
	if r := w.mustReport(purchase("order-1", click.ID)); r.GetAttribution().GetReasonCode() != "CLICK_MATCHED" {
		t.Errorf("%v", r)
	}
	if n := w.store.looks.Load(); n != 1 {
		t.Errorf("%d look-ups in Postgres", n)
	}
}

func TestReport_AwaitsClickThatTailDoesNotHave(t *testing.T) {
	for name, set := range map[string]func(*world, affiliate.Click){
		"empty":                  func(*world, affiliate.Click) {},
		"Redis is not available": func(w *world, _ affiliate.Click) { w.tail.err = errors.New("connection refused") },
		"unresolved record": func(w *world, c affiliate.Click) {
			w.tail.clicks = []affiliate.Click{{ID: c.ID, ReceivedAt: c.ReceivedAt}}
		},
		"another workspace": func(w *world, c affiliate.Click) {
			c.Scope.Workspace = w.NewWorkspace()
			w.tail.clicks = []affiliate.Click{c}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			click := w.click()
			set(w, click)
			r := w.mustReport(purchase("order-1", click.ID))
			if r.GetAttributed() || r.GetAttribution().GetReasonCode() != "CLICK_UNKNOWN" {
				t.Errorf("%v", r)
			}
			w.wantCount(1, `awaited_clicks where click_id = $1`, click.ID)
		})
	}
}

func TestReport_StopsWaitingWhenContextEnds(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(as(w.scope), 30*time.Millisecond)
	defer cancel()
	_, err := w.service.ReportConversion(ctx, purchase("order-1", w.click().ID))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	w.wantCount(0, `conversions`)
}

// lateConversion reports a purchase with an unknown click and then stores the click.
func (w *world) lateConversion(external string) affiliate.AttributeLateClick {
	w.Helper()
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	if r := w.mustReport(purchase(external, click.ID)); r.GetAttributed() {
		w.Fatalf("%v", r)
	}
	w.storeClick(click)
	return affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}
}

func TestLateClick_ParallelJobsAndSweepsAttributeOnce(t *testing.T) {
	w := newWorld(t)
	const conversions = 5
	var late []affiliate.AttributeLateClick
	for i := range conversions {
		late = append(late, w.lateConversion("order-"+string(rune('a'+i))))
	}
	var wg sync.WaitGroup
	for range 8 {
		for _, args := range late {
			wg.Go(func() {
				if err := w.service.AttributeAwaited(context.Background(), args); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Go(func() {
			if _, err := w.service.SweepAwaited(context.Background(), affiliate.AttributeLateClick{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()

	w.wantCount(conversions, `conversions where attributed and reason_code = 'CLICK_MATCHED' and version = 2 and participant_id = $1`, w.participant)
	w.wantCount(2*conversions, `attribution_decisions`)
	w.wantCount(conversions, `attribution_decisions d join conversions c on c.decision_id = d.id
		join attribution_decisions first on first.id = d.supersedes and first.conversion_id = c.id and not first.attributed`)
	w.wantCount(conversions, `commissions m join conversions c on c.decision_id = m.decision_id where m.amount_cents = 3000`)
	w.wantCount(conversions, `commission_history`)
	w.wantCount(0, `awaited_clicks`)
	w.wantCount(conversions, `events where type = 'conversion.reattributed'`)
	w.wantCount(conversions, `events where type = 'commission.created'`)
	w.wantCount(3*conversions, `events`)

	types, objects := w.Events()
	first := slices.Index(types, "conversion.reattributed")
	if types[first+1] != "commission.created" || objects[first]["attributed"] != true || objects[first]["version"] != 2.0 {
		t.Errorf("events: %v %v", types, objects[first])
	}
}

func TestLateClick_AttributesSeveralConversions(t *testing.T) {
	w := newWorld(t)
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	const conversions = 130 // more than one batch
	for i := range conversions {
		w.mustReport(purchase("order-"+string(rune('!'+i)), click.ID))
	}
	w.storeClick(click)
	if err := w.service.AttributeAwaited(t.Context(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
		t.Fatal(err)
	}
	w.wantCount(conversions, `commissions`)
	w.wantCount(0, `awaited_clicks`)
}

func TestLateClick_WithoutCommission(t *testing.T) {
	for name, tc := range map[string]struct {
		change     func(*world)
		reason     string
		attributed bool
		decisions  int
		events     int
	}{
		"programme paused before the click arrives": {
			func(w *world) { w.Exec(`update programs set status = 'paused'`) }, "PROGRAM_INACTIVE", false, 2, 1,
		},
		"participant suspended before the click arrives": {
			func(w *world) { w.Exec(`update participants set status = 'suspended'`) }, "PARTICIPANT_NOT_APPROVED", true, 2, 2,
		},
		"click of the other mode": {
			func(w *world) {
				w.Exec(`update clicks set mode = 'live'`)
				w.Exec(`update programs set mode = 'live'`)
				w.Exec(`update participants set mode = 'live'`)
			}, "CLICK_UNKNOWN", false, 1, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			args := w.lateConversion("order-1")
			tc.change(w)
			for range 2 {
				if err := w.service.AttributeAwaited(t.Context(), args); err != nil {
					t.Fatal(err)
				}
			}
			w.wantCount(1, `conversions where reason_code = $1 and attributed = $2`, tc.reason, tc.attributed)
			w.wantCount(tc.decisions, `attribution_decisions`)
			w.wantCount(tc.events, `events`)
			w.wantCount(0, `commissions`)
			w.wantCount(0, `awaited_clicks`)
		})
	}
}

func TestLateClick_FailedConversionDoesNotBlockOthers(t *testing.T) {
	w := newWorld(t)
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	for _, external := range []string{"order-1", "poison", "order-2"} {
		w.mustReport(purchase(external, click.ID))
	}
	w.storeClick(click)
	w.lateConversion("order-3")
	w.mustReport(purchase("order-4", w.clickAt(w.now().Add(-time.Hour)).ID))
	w.Exec(`update awaited_clicks set expires_at = created_at where conversion_id = (select id from conversions where external_transaction_id = 'order-4')`)
	w.Exec(`alter table commissions add constraint poison check (external_transaction_id <> 'poison')`)
	if _, err := w.service.SweepAwaited(t.Context(), affiliate.AttributeLateClick{}); err == nil {
		t.Error("the sweep returned no error")
	}
	w.wantCount(3, `commissions`)
	w.wantCount(1, `awaited_clicks`)
	w.Exec(`alter table commissions drop constraint poison`)
	if _, err := w.service.SweepAwaited(t.Context(), affiliate.AttributeLateClick{}); err != nil {
		t.Error(err)
	}
	w.wantCount(4, `commissions`)
	w.wantCount(0, `awaited_clicks`)
}

// If a person reattributes a conversion while a late attribution runs, the person's
// decision stays in force.
func TestLateClick_DoesNotReplacePersonsDecision(t *testing.T) {
	w := newWorld(t)
	click := w.clickAt(w.now().Add(-10 * time.Minute))
	other, _ := w.newParticipant(w.scope, w.program)
	r := w.mustReport(purchase("order-1", click.ID))
	w.storeClick(click)
	w.store.found = func() {
		w.store.found = nil
		w.mustReattribute(r.GetId(), other)
	}
	if err := w.service.AttributeAwaited(t.Context(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
		t.Fatal(err)
	}
	if w.store.found != nil {
		t.Fatal("the click was not looked up")
	}
	w.wantCount(1, `conversions where id = $1 and participant_id = $2 and version = 2`, r.GetId(), other)
	w.wantCount(2, `attribution_decisions`)
	w.wantCount(1, `commissions where participant_id = $1`, other)
	w.wantCount(1, `commissions`)
}

func TestLateClick_JobBeforeClickChangesNothing(t *testing.T) {
	w := newWorld(t)
	click := w.clickAt(time.Now().Add(-10 * time.Minute))
	w.mustReport(purchase("order-1", click.ID))
	if err := w.service.AttributeAwaited(t.Context(), affiliate.AttributeLateClick{Workspace: w.scope.Workspace, Click: click.ID}); err != nil {
		t.Fatal(err)
	}
	w.wantCount(1, `awaited_clicks`)
	w.wantCount(1, `attribution_decisions`)
}

func TestSweep_EndsWaitAfterADay(t *testing.T) {
	w := newWorld(t)
	w.mustReport(purchase("order-1", w.clickAt(time.Now().Add(-time.Hour)).ID))
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{24*time.Hour - time.Minute, 1}, {24*time.Hour + time.Minute, 0}} {
		w.offset.Store(int64(step.after))
		cursor, err := w.service.SweepAwaited(t.Context(), affiliate.AttributeLateClick{})
		if err != nil || cursor != (affiliate.AttributeLateClick{}) {
			t.Fatal(cursor, err)
		}
		w.wantCount(step.left, `awaited_clicks`)
	}
	w.wantCount(1, `conversions where not attributed`)
}

// A late click earns a commission through its job alone, and through the sweep alone.
func TestLateClick_EarnsThroughJobOrSweep(t *testing.T) {
	for name, tc := range map[string]struct {
		arrive   func(*world, affiliate.Click) error
		periodic func(*world) []*river.PeriodicJob
	}{
		"by its job": {
			func(w *world, c affiliate.Click) error {
				return w.Store.StoreClicks(context.Background(), []affiliate.Click{c})
			},
			func(*world) []*river.PeriodicJob { return nil },
		},
		"by the sweep": {
			func(w *world, c affiliate.Click) error { w.storeClick(c); return nil },
			func(w *world) []*river.PeriodicJob { return w.service.PeriodicJobs() },
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			click := w.clickAt(w.now().Add(-10 * time.Minute))
			w.mustReport(purchase("order-1", click.ID))
			if err := tc.arrive(w, click); err != nil {
				t.Fatal(err)
			}
			w.work(tc.periodic(w))
			deadline := time.Now().Add(20 * time.Second)
			for w.count(`commissions`) == 0 && time.Now().Before(deadline) {
				time.Sleep(50 * time.Millisecond)
			}
			w.wantCount(1, `commissions`)
			w.wantCount(0, `awaited_clicks`)
		})
	}
}

// work runs the package's workers until the test ends.
func (w *world) work(periodic []*river.PeriodicJob) {
	w.Helper()
	workers := river.NewWorkers()
	w.service.AddWorkers(workers)
	w.StartWorkers(&river.Config{
		Queues:            map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers:           workers,
		PeriodicJobs:      periodic,
		FetchPollInterval: 100 * time.Millisecond,
	})
}
