package webhook_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// fillDeliveries stores deliveries of events, one each step back from now: of a
// hundred, one was given up, one is pending, one has failed, and the rest is
// delivered.
func (w *useCases) fillDeliveries(e affiliate.Endpoint, n int, now time.Time, step time.Duration) {
	w.t.Helper()
	w.Exec(`
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, status, due_at, created_at, completed_at)
		select $1, $2, u.id, (a.at at time zone 'UTC')::date, $3, u.id, 'payout.paid', 1,
			case n % 100 when 0 then 'dead_lettered' when 1 then 'pending' when 2 then 'failed' else 'delivered' end,
			case when n % 100 in (1, 2) then a.at end, a.at, case when n % 100 not in (1, 2) then a.at end
		from generate_series(0, $4::integer - 1) n
		cross join lateral (select $5::timestamptz - n * $6::interval as at) a
		cross join lateral (
			select (lpad(to_hex((extract(epoch from a.at) * 1000)::bigint), 12, '0') || '7' || substr(md5($2::uuid::text || n), 1, 3) || '8' || substr(md5($2::uuid::text || n), 4, 15))::uuid as id
		) u`, e.Scope.Workspace, e.ID, e.Scope.Mode, n, now, step)
}

func TestCancelingWritesDownWhatHasEnded(t *testing.T) {
	w := newUseCases(t)
	e, twin := w.create(w.scope), w.create(w.scope)
	at := w.now.Add(-time.Hour)
	retried := become(affiliate.DeliveryDelivered, at)
	retried["due_at"], retried["extra"] = w.now, 2
	ids := []affiliate.DeliveryID{
		w.insert(e, at), w.insert(e, at, become(affiliate.DeliveryFailed, at)), w.insert(e, at, retried),
		w.insert(e, at, become(affiliate.DeliveryDeadLettered, at)), w.insert(e, at, become(affiliate.DeliveryCanceled, at)),
	}
	others := w.insert(twin, at)
	w.cancel(e, 10, 0)
	w.turn(e, false)
	for what, scope := range w.others() {
		w.cancel(affiliate.Endpoint{ID: e.ID, Scope: scope}, 10, 0)
		_ = what
	}
	w.turn(e, true)
	current := w.insert(e, at, pgtest.Row{"epoch": 2})
	w.cancel(e, 2, 2)
	w.cancel(e, 2, 1)
	w.cancel(e, 2, 0)
	for i, want := range []string{
		"canceled tier 0 extra 0 epoch 1 due - completed 18 12:00",
		"canceled tier 1 extra 0 epoch 1 due - completed 18 12:00",
		"delivered tier 1 extra 0 epoch 1 due - completed 18 11:00",
		"dead_lettered tier 1 extra 0 epoch 1 due - completed 18 11:00",
		"canceled tier 1 extra 0 epoch 1 due - completed 18 11:00",
	} {
		if got := w.stored(ids[i]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, id := range []affiliate.DeliveryID{others, current} {
		if got := w.stored(id); !strings.HasPrefix(got, "pending") || !strings.Contains(got, "due 18 11:00") {
			t.Error(got)
		}
	}
	w.remove(e)
	w.cancel(e, 10, 1)
	if got := w.stored(current); !strings.HasPrefix(got, "canceled") {
		t.Error(got)
	}
}

// recovery is a job about an endpoint's deliveries of the last hours, asked for now.
func (w *useCases) recovery(e affiliate.Endpoint, statuses ...affiliate.DeliveryStatus) affiliate.RecoverDeliveries {
	return affiliate.RecoverDeliveries{
		Workspace: e.Scope.Workspace, Mode: e.Scope.Mode, Endpoint: e.ID,
		Since: w.now.Add(-3 * time.Hour), Until: w.now.Add(-time.Hour), RequestedAt: w.now, Statuses: statuses,
	}
}

// recover does one block of a job an hour later, which is to recover so many.
func (w *useCases) recover(job affiliate.RecoverDeliveries, limit, want int) {
	w.t.Helper()
	if n, err := webhook.RecoverBlock(w.t.Context(), w.store, w.inAnHour, job, limit); err != nil || n != want {
		w.t.Fatalf("%d recovered, %v, want %d", n, err, want)
	}
}

func (w *useCases) queue(job affiliate.RecoverDeliveries, want int64) {
	w.t.Helper()
	req := &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: job.Endpoint.String(), Since: timestamppb.New(job.Since), Until: timestamppb.New(job.Until),
	}
	for _, status := range job.Statuses {
		req.Statuses = append(req.Statuses, server.FromWord[affiliatev1.DeliveryStatus](status))
	}
	scope := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}
	if res, err := w.service.RecoverDeliveries(w.as(scope), req); err != nil || res.GetQueued() != want {
		w.t.Fatalf("%v queued, %v, want %d", res, err, want)
	}
}

const startedOver = "pending tier 0 extra 0 epoch %d due 18 13:00 completed -"

// What is asked for gets a new schedule; nothing else is touched.
func TestRecoveringStartsDeliveriesOver(t *testing.T) {
	all := []affiliate.DeliveryStatus{
		affiliate.DeliveryPending, affiliate.DeliveryFailed, affiliate.DeliveryDelivered, affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled,
	}
	w := newUseCases(t)
	var woken []affiliate.EndpointKey
	w.Store.OnDeliveries(func(endpoints []affiliate.EndpointKey) { woken = append(woken, endpoints...) })
	for _, tc := range []struct {
		name    string
		asked   []affiliate.DeliveryStatus
		off     bool // it was off since
		written bool // and that was written down
		want    []affiliate.DeliveryStatus
	}{
		{"given up or canceled", all[3:], false, false, all[3:]},
		{"given up", all[3:4], false, false, all[3:4]},
		{"failed", all[1:2], false, false, all[1:2]},
		{"delivered", all[2:3], false, false, all[2:3]},
		{"canceled a moment ago", all[4:], true, false, []affiliate.DeliveryStatus{all[0], all[1], all[4]}},
		{"canceled", all[4:], true, true, []affiliate.DeliveryStatus{all[0], all[1], all[4]}},
		{"failed, and canceled a moment ago", all[1:2], true, false, nil},
		{"given up before it was off", all[3:4], true, false, all[3:4]},
		{"all", all[1:], true, false, all},
	} {
		e := w.create(w.scope)
		at := w.now.Add(-2 * time.Hour)
		ids := map[affiliate.DeliveryStatus]affiliate.DeliveryID{}
		for _, status := range all {
			ids[status] = w.insert(e, at, become(status, at))
		}
		tooOld := w.insert(e, w.now.Add(-3*time.Hour-time.Millisecond), become(affiliate.DeliveryDeadLettered, at))
		tooNew := w.insert(e, w.now.Add(-time.Hour), become(affiliate.DeliveryDeadLettered, at))
		epoch := 1
		if tc.off {
			w.turn(e, false)
			w.turn(e, true)
			epoch = 2
		}
		if tc.written {
			w.cancel(e, 10, 2)
		}
		before := map[affiliate.DeliveryID]string{tooOld: w.stored(tooOld), tooNew: w.stored(tooNew)}
		for _, id := range ids {
			before[id] = w.stored(id)
		}
		for _, status := range tc.want {
			before[ids[status]] = fmt.Sprintf(startedOver, epoch)
		}
		woken = nil
		job := w.recovery(e, tc.asked...)
		w.queue(job, int64(len(tc.want)))
		if line := w.audited(e); !strings.HasPrefix(line, "webhook.recover - ") || !strings.Contains(line, `"2026-03-18T09:00:00.000Z"`) {
			t.Errorf("%s: %s", tc.name, line)
		}
		for what, scope := range map[string]affiliate.Scope{
			"another mode":      {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
			"another workspace": {Workspace: affiliate.NewID[affiliate.Workspace](w.now), Mode: w.scope.Mode},
		} {
			foreign := job
			foreign.Workspace, foreign.Mode = scope.Workspace, scope.Mode
			if n, err := webhook.RecoverBlock(t.Context(), w.store, w.Now, foreign, 10); err != nil || n != 0 {
				t.Errorf("%s: %d, %v", what, n, err)
			}
		}
		if len(tc.want) == 1 {
			w.recover(job, 1, 1)
		} else {
			w.recover(job, 10, len(tc.want))
		}
		w.recover(job, 1, 0)
		for id, want := range before {
			if got := w.stored(id); got != want {
				t.Errorf("%s: %s, want %s", tc.name, got, want)
			}
		}
		if len(woken) != min(len(tc.want), 1) {
			t.Errorf("%s: woken %v", tc.name, woken)
		}
		w.remove(e)
	}
	if n := w.CountJobs("recover_deliveries"); n != 9 {
		t.Errorf("%d jobs", n)
	}
}

// A job that runs again leaves alone what it has started over, whatever became of it
// since.
func TestARecoveryRunsTwice(t *testing.T) {
	w := newUseCases(t)
	at, later := w.now.Add(-2*time.Hour), w.now.Add(90*time.Minute)
	asked := []affiliate.DeliveryStatus{
		affiliate.DeliveryFailed, affiliate.DeliveryDelivered, affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled,
	}
	for _, since := range append(asked, affiliate.DeliveryPending) {
		e := w.create(w.scope)
		id := w.insert(e, at, become(affiliate.DeliveryDeadLettered, at))
		job := w.recovery(e, asked...)
		w.recover(job, 10, 1)
		switch row := become(since, later); since {
		case affiliate.DeliveryPending:
		case affiliate.DeliveryCanceled:
			turned := w.now
			w.now = later
			w.turn(e, false)
			w.turn(e, true)
			w.recover(job, 10, 0)
			w.cancel(e, 10, 1)
			w.now = turned
		default:
			w.Exec(`update webhook_deliveries set status = $2, attempts = $3, due_at = $4, completed_at = $5 where id = $1`,
				id, since, row["attempts"], row["due_at"], row["completed_at"])
		}
		before := w.stored(id)
		w.recover(job, 10, 0)
		if got := w.stored(id); got != before {
			t.Errorf("%s since: %s became %s", since, before, got)
		}
		// Who asks anew gets what has ended since.
		again := job
		again.RequestedAt = later.Add(time.Hour)
		want := 1
		if since == affiliate.DeliveryPending {
			want = 0
		}
		w.recover(again, 10, want)
		w.remove(e)
	}
}

// One that is turned off after it was asked for is left as it is: what waits for it
// is canceled, and so is the recovery.
func TestNothingIsRecoveredForAnEndpointThatIsOff(t *testing.T) {
	w := newUseCases(t)
	for name, end := range map[string]func(affiliate.Endpoint){
		"off":     func(e affiliate.Endpoint) { w.turn(e, false) },
		"deleted": w.remove,
	} {
		e := w.create(w.scope)
		at := w.now.Add(-2 * time.Hour)
		id := w.insert(e, at, become(affiliate.DeliveryDeadLettered, at))
		job := w.recovery(e, affiliate.DeliveryDeadLettered)
		w.queue(job, 1)
		end(e)
		w.recover(job, 10, 0)
		if got := w.stored(id); !strings.HasPrefix(got, "dead_lettered") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A delivery that is being marked as canceled when the job runs is recovered by the next
// run.
func TestLockedDeliveriesAreRecoveredLater(t *testing.T) {
	w := newUseCases(t)
	e := w.create(w.scope)
	at := w.now.Add(-2 * time.Hour)
	free := w.insert(e, at, become(affiliate.DeliveryDeadLettered, at))
	locked := w.insert(e, at, become(affiliate.DeliveryDeadLettered, at))
	job := w.recovery(e, affiliate.DeliveryDeadLettered)

	other, err := w.Store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `select from webhook_deliveries where id = $1 for update`, locked); err != nil {
		t.Fatal(err)
	}
	n, err := webhook.RecoverBlock(t.Context(), w.store, w.inAnHour, job, 10)
	if snooze := (*river.JobSnoozeError)(nil); n != 1 || !errors.As(err, &snooze) {
		t.Errorf("%d recovered while one is locked, %v", n, err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.recover(job, 10, 1)
	for _, id := range []affiliate.DeliveryID{free, locked} {
		if got, want := w.stored(id), fmt.Sprintf(startedOver, 1); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestManyDeliveriesAreRecoveredInBlocks(t *testing.T) {
	w := newUseCases(t)
	e := w.create(w.scope)
	w.fillDeliveries(e, 5000, w.now, time.Minute)
	job := w.recovery(e, affiliate.DeliveryDeadLettered)
	job.Since, job.Until = w.now.AddDate(0, 0, -30), w.now.Add(time.Minute)
	w.queue(job, 50)
	for _, n := range []int{20, 20, 10, 0} {
		w.recover(job, 20, n)
	}
	if n := w.Count(`select count(*) from webhook_deliveries where status = 'pending' and due_at = $1`, w.now.Add(time.Hour)); n != 50 {
		t.Errorf("%d", n)
	}
}
