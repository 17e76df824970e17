package dispatch_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server/dispatch"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

var now = time.Date(2026, 5, 6, 7, 8, 9, 123e6, time.UTC)

type world struct {
	*pgtest.Fixture
	t      *testing.T
	scope  affiliate.Scope
	worker *dispatch.Worker
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, scope: affiliate.Scope{Workspace: affiliate.NewID[affiliate.Workspace](now), Mode: affiliate.ModeTest}}
	w.Fixture = pgtest.Open(t, func() time.Time { return now })
	w.worker = dispatch.NewWorker(w.Store, func() time.Time { return now.Add(time.Hour) })
	return w
}

// click stores a click of an instant.
func (w *world) click(id affiliate.ClickID) {
	w.t.Helper()
	at, _ := id.Time()
	w.Exec(`
		insert into clicks (workspace_id, id, clicked_at, mode, program_id, participant_id, referral_code,
		  received_at, expires_at, created_at, consent, is_bot)
		values ($1, $2, $3, 'test', gen_random_uuid(), gen_random_uuid(), 'code', $3, $3, $3, 'unknown', false)`,
		w.scope.Workspace, id, at)
}

func clickAt(at time.Time) affiliate.ClickID { return affiliate.NewID[affiliate.Click](at) }

// conversion stores the event of one.
func (w *world) conversion(at time.Time, attributed bool, click *affiliate.ClickID) affiliate.EventID {
	w.t.Helper()
	e := affiliate.NewEvent(w.scope, affiliate.EventConversionCreated, at, map[string]any{
		"attributed": attributed, "attribution": map[string]any{"click_id": click},
	}, nil)
	body, err := e.Body()
	if err != nil {
		w.t.Fatal(err)
	}
	w.Exec(`insert into events (workspace_id, id, mode, type, body, created_at) values ($1, $2, 'test', $3, $4, $5)`,
		w.scope.Workspace, e.ID, e.Name, body, e.At)
	return e.ID
}

// work runs a job, and reports whether it wants to come back.
func (w *world) work(ids ...affiliate.EventID) (snoozed bool) {
	w.t.Helper()
	err := w.worker.Work(w.t.Context(), &river.Job[affiliate.DispatchEvents]{Args: affiliate.DispatchEvents{Workspace: w.scope.Workspace, Events: ids}})
	var snooze *river.JobSnoozeError
	if errors.As(err, &snooze) {
		return true
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return false
}

func (w *world) checkConverted(click affiliate.ClickID, want *time.Time) {
	w.t.Helper()
	var at *time.Time
	if err := w.SQL.QueryRow(w.t.Context(), `select converted_at from clicks where id = $1`, click).Scan(&at); err != nil {
		w.t.Fatal(err)
	}
	if (at == nil) != (want == nil) || at != nil && !at.Equal(*want) {
		w.t.Errorf("converted at %v, want %v", at, want)
	}
}

func (w *world) checkLeft(want ...affiliate.EventID) {
	w.t.Helper()
	texts := make([]string, len(want))
	for i, id := range want {
		texts[i] = id.String()
	}
	slices.Sort(texts)
	if left := w.Texts(`select id::text from events where dispatched_at is null order by 1`); !slices.Equal(left, texts) {
		w.t.Errorf("left in the outbox: %v, want %v", left, texts)
	}
}

func after(d time.Duration) *time.Time {
	at := now.Add(d)
	return &at
}

func TestAttributedConversionsStampTheirClickWithTheFirst(t *testing.T) {
	w := newWorld(t)
	click, other := clickAt(now), clickAt(now.AddDate(0, 0, -3))
	w.click(click)
	w.click(other)
	foreign := affiliate.ClickID{UUID: uuid.New()} // no UUIDv7: it is not ours
	if w.work(w.conversion(*after(time.Second), false, &click), w.conversion(*after(time.Second), true, nil), w.conversion(*after(time.Second), true, &foreign)) {
		t.Error("a job without a click of ours comes back")
	}
	w.checkConverted(click, nil)
	// The order in the job is not that of time.
	later, first, last := w.conversion(*after(4 * time.Second), true, &click), w.conversion(*after(3 * time.Second), true, &click), w.conversion(*after(5 * time.Second), true, &click)
	ofOther := w.conversion(*after(time.Minute), true, &other)
	for range 2 { // a job may run again
		if w.work(later, first, ofOther, last) {
			t.Error("comes back")
		}
		w.checkConverted(click, after(3*time.Second))
		w.checkConverted(other, after(time.Minute))
	}
	if w.work(w.conversion(*after(2 * time.Second), true, &click)) {
		t.Error("comes back")
	}
	w.checkConverted(click, after(2*time.Second))
	w.checkConverted(other, after(time.Minute))
	w.checkLeft()
}

// What waits for its click keeps nothing else of its job back.
func TestOnlyEventsAheadOfTheirClicksStay(t *testing.T) {
	w := newWorld(t)
	stored, ahead, lost := clickAt(now), clickAt(now.Add(time.Minute)), clickAt(now.Add(-2*time.Minute))
	w.click(stored)
	early, alsoEarly := w.conversion(*after(time.Minute), true, &ahead), w.conversion(*after(2 * time.Minute), true, &ahead)
	ids := []affiliate.EventID{
		early, w.conversion(*after(time.Second), true, &stored), alsoEarly, w.conversion(*after(time.Second), false, nil),
		w.conversion(now.AddDate(0, 0, -1), true, &lost), // its click is not to be expected any more
	}
	for range 2 {
		if !w.work(ids...) {
			t.Error("a job whose click is not stored yet is over")
		}
		w.checkConverted(stored, after(time.Second))
		w.checkLeft(early, alsoEarly)
	}
	if n, err := w.Store.RequeueEvents(t.Context(), *after(3 * time.Minute), 10); err != nil || n != 2 {
		t.Errorf("requeued %d, %v, want the events that were left behind", n, err)
	}
	w.click(ahead)
	if w.work(ids...) {
		t.Error("comes back with all stored")
	}
	w.checkConverted(ahead, after(time.Minute))
	w.checkLeft()
}

// Jobs that name the same clicks, each in its own order, do not wait for each
// other in a circle, and all find the earliest.
func TestJobsOfTheSameClicksPass(t *testing.T) {
	w := newWorld(t)
	const n, jobs = 64, 8
	clicks := make([]affiliate.ClickID, n)
	for i := range clicks {
		clicks[i] = clickAt(now.Add(time.Duration(-i) * time.Hour))
		w.click(clicks[i])
	}
	done := make(chan error, jobs)
	for j := range jobs {
		var ids []affiliate.EventID
		for _, i := range rand.New(rand.NewPCG(1, uint64(j))).Perm(n) { //nolint:gosec // an order
			ids = append(ids, w.conversion(*after(time.Duration((i+j)%jobs+1) * time.Second), true, &clicks[i]))
		}
		go func() {
			done <- w.worker.Work(t.Context(), &river.Job[affiliate.DispatchEvents]{Args: affiliate.DispatchEvents{Workspace: w.scope.Workspace, Events: ids}})
		}()
	}
	for range jobs {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	for _, click := range clicks {
		w.checkConverted(click, after(time.Second))
	}
	w.checkLeft()
}
