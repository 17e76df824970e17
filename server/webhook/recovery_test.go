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

// fillDeliveries stores n deliveries. The time between two of them is step, and the newest
// one is at now. Each hundred contains one dead-lettered, one pending and one failed
// delivery. All others are delivered.
func (w *serviceWorld) fillDeliveries(e affiliate.Endpoint, n int, now time.Time, step time.Duration) {
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

func TestCancelJob_CancelsDeliveriesOfEndedEpochs(t *testing.T) {
	w := newServiceWorld(t)
	e, twin := w.create(w.scope), w.create(w.scope)
	at := w.now.Add(-time.Hour)
	retried := rowWithStatus(affiliate.DeliveryDelivered, at)
	retried["due_at"], retried["extra"] = w.now, 2
	ids := []affiliate.DeliveryID{
		w.addDelivery(e, at), w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryFailed, at)), w.addDelivery(e, at, retried),
		w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryDeadLettered, at)), w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryCanceled, at)),
	}
	ofTwin := w.addDelivery(twin, at)
	w.cancelBlock(e, 10, 0)
	w.setActive(e, false)
	for _, scope := range w.otherScopes() {
		w.cancelBlock(affiliate.Endpoint{ID: e.ID, Scope: scope}, 10, 0)
	}
	w.setActive(e, true)
	current := w.addDelivery(e, at, pgtest.Row{"epoch": 2})
	w.cancelBlock(e, 2, 2)
	w.cancelBlock(e, 2, 1)
	w.cancelBlock(e, 2, 0)
	for i, want := range []string{
		"canceled tier 0 extra 0 epoch 1 due - completed 18 12:00",
		"canceled tier 1 extra 0 epoch 1 due - completed 18 12:00",
		"delivered tier 1 extra 0 epoch 1 due - completed 18 11:00",
		"dead_lettered tier 1 extra 0 epoch 1 due - completed 18 11:00",
		"canceled tier 1 extra 0 epoch 1 due - completed 18 11:00",
	} {
		if got := w.rowText(ids[i]); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, id := range []affiliate.DeliveryID{ofTwin, current} {
		if got := w.rowText(id); !strings.HasPrefix(got, "pending") || !strings.Contains(got, "due 18 11:00") {
			t.Error(got)
		}
	}
	w.deleteEndpoint(e)
	w.cancelBlock(e, 10, 1)
	if got := w.rowText(current); !strings.HasPrefix(got, "canceled") {
		t.Error(got)
	}
}

// newRecovery returns a job, requested now, that recovers the deliveries of an endpoint
// from three hours ago until one hour ago.
func (w *serviceWorld) newRecovery(e affiliate.Endpoint, statuses ...affiliate.DeliveryStatus) affiliate.RecoverDeliveries {
	return affiliate.RecoverDeliveries{
		Workspace: e.Scope.Workspace, Mode: e.Scope.Mode, Endpoint: e.ID,
		Since: w.now.Add(-3 * time.Hour), Until: w.now.Add(-time.Hour), RequestedAt: w.now, Statuses: statuses,
	}
}

// recoverBlock runs one block of a recovery job, one hour later. It must recover want
// deliveries.
func (w *serviceWorld) recoverBlock(job affiliate.RecoverDeliveries, limit, want int) {
	w.t.Helper()
	if n, err := webhook.RecoverBlock(w.t.Context(), w.store, w.oneHourLater, job, limit); err != nil || n != want {
		w.t.Fatalf("%d recovered, %v, want %d", n, err, want)
	}
}

func (w *serviceWorld) requestRecovery(job affiliate.RecoverDeliveries, want int64) {
	w.t.Helper()
	req := &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: job.Endpoint.String(), Since: timestamppb.New(job.Since), Until: timestamppb.New(job.Until),
	}
	for _, status := range job.Statuses {
		req.Statuses = append(req.Statuses, server.EnumValue[affiliatev1.DeliveryStatus](status))
	}
	scope := affiliate.Scope{Workspace: job.Workspace, Mode: job.Mode}
	if res, err := w.service.RecoverDeliveries(w.asMerchant(scope), req); err != nil || res.GetQueued() != want {
		w.t.Fatalf("%v queued, %v, want %d", res, err, want)
	}
}

const restartedRow = "pending tier 0 extra 0 epoch %d due 18 13:00 completed -"

// A recovery gives the selected deliveries a new schedule. It changes no other delivery.
func TestRecoverDeliveries_RestartsTheSelectedDeliveries(t *testing.T) {
	all := []affiliate.DeliveryStatus{
		affiliate.DeliveryPending, affiliate.DeliveryFailed, affiliate.DeliveryDelivered, affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled,
	}
	w := newServiceWorld(t)
	var woken []affiliate.EndpointKey
	w.Store.OnDeliveries(func(endpoints []affiliate.EndpointKey) { woken = append(woken, endpoints...) })
	for _, tc := range []struct {
		name      string
		statuses  []affiliate.DeliveryStatus // of the request
		off       bool                       // the endpoint was disabled and enabled again
		cancelJob bool                       // the cancel job ran after that
		want      []affiliate.DeliveryStatus // original statuses of the restarted deliveries
	}{
		{"dead-lettered or canceled", all[3:], false, false, all[3:]},
		{"dead-lettered", all[3:4], false, false, all[3:4]},
		{"failed", all[1:2], false, false, all[1:2]},
		{"delivered", all[2:3], false, false, all[2:3]},
		{"canceled, before the job", all[4:], true, false, []affiliate.DeliveryStatus{all[0], all[1], all[4]}},
		{"canceled", all[4:], true, true, []affiliate.DeliveryStatus{all[0], all[1], all[4]}},
		{"failed, and canceled before the job", all[1:2], true, false, nil},
		{"dead-lettered before the endpoint was disabled", all[3:4], true, false, all[3:4]},
		{"all", all[1:], true, false, all},
	} {
		e := w.create(w.scope)
		at := w.now.Add(-2 * time.Hour)
		ids := map[affiliate.DeliveryStatus]affiliate.DeliveryID{}
		for _, status := range all {
			ids[status] = w.addDelivery(e, at, rowWithStatus(status, at))
		}
		tooOld := w.addDelivery(e, w.now.Add(-3*time.Hour-time.Millisecond), rowWithStatus(affiliate.DeliveryDeadLettered, at))
		tooNew := w.addDelivery(e, w.now.Add(-time.Hour), rowWithStatus(affiliate.DeliveryDeadLettered, at))
		epoch := 1
		if tc.off {
			w.setActive(e, false)
			w.setActive(e, true)
			epoch = 2
		}
		if tc.cancelJob {
			w.cancelBlock(e, 10, 2)
		}
		before := map[affiliate.DeliveryID]string{tooOld: w.rowText(tooOld), tooNew: w.rowText(tooNew)}
		for _, id := range ids {
			before[id] = w.rowText(id)
		}
		for _, status := range tc.want {
			before[ids[status]] = fmt.Sprintf(restartedRow, epoch)
		}
		woken = nil
		job := w.newRecovery(e, tc.statuses...)
		w.requestRecovery(job, int64(len(tc.want)))
		if line := w.lastAudit(e); !strings.HasPrefix(line, "webhook.recover - ") || !strings.Contains(line, `"2026-03-18T09:00:00.000Z"`) {
			t.Errorf("%s: %s", tc.name, line)
		}
		for name, scope := range map[string]affiliate.Scope{
			"another mode":      {Workspace: w.scope.Workspace, Mode: affiliate.ModeTest},
			"another workspace": {Workspace: affiliate.NewID[affiliate.Workspace](w.now), Mode: w.scope.Mode},
		} {
			foreign := job
			foreign.Workspace, foreign.Mode = scope.Workspace, scope.Mode
			if n, err := webhook.RecoverBlock(t.Context(), w.store, w.Now, foreign, 10); err != nil || n != 0 {
				t.Errorf("%s: %d, %v", name, n, err)
			}
		}
		if len(tc.want) == 1 {
			w.recoverBlock(job, 1, 1)
		} else {
			w.recoverBlock(job, 10, len(tc.want))
		}
		w.recoverBlock(job, 1, 0)
		for id, want := range before {
			if got := w.rowText(id); got != want {
				t.Errorf("%s: %s, want %s", tc.name, got, want)
			}
		}
		if len(woken) != min(len(tc.want), 1) {
			t.Errorf("%s: wakeups of %v", tc.name, woken)
		}
		w.deleteEndpoint(e)
	}
	if n := w.CountJobs("recover_deliveries"); n != 9 {
		t.Errorf("%d jobs", n)
	}
}

// If a recovery job runs again, it does not change deliveries that it has already
// restarted, whatever their status is now.
func TestRecoverJob_RunsAgain(t *testing.T) {
	w := newServiceWorld(t)
	at, later := w.now.Add(-2*time.Hour), w.now.Add(90*time.Minute)
	statuses := []affiliate.DeliveryStatus{
		affiliate.DeliveryFailed, affiliate.DeliveryDelivered, affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled,
	}
	for _, current := range append(statuses, affiliate.DeliveryPending) {
		e := w.create(w.scope)
		id := w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryDeadLettered, at))
		job := w.newRecovery(e, statuses...)
		w.recoverBlock(job, 10, 1)
		switch row := rowWithStatus(current, later); current {
		case affiliate.DeliveryPending:
		case affiliate.DeliveryCanceled:
			started := w.now
			w.now = later
			w.setActive(e, false)
			w.setActive(e, true)
			w.recoverBlock(job, 10, 0)
			w.cancelBlock(e, 10, 1)
			w.now = started
		default:
			w.Exec(`update webhook_deliveries set status = $2, attempts = $3, due_at = $4, completed_at = $5 where id = $1`,
				id, current, row["attempts"], row["due_at"], row["completed_at"])
		}
		before := w.rowText(id)
		w.recoverBlock(job, 10, 0)
		if got := w.rowText(id); got != before {
			t.Errorf("%s: %s became %s", current, before, got)
		}
		// A new recovery restarts deliveries that have ended after the first one.
		again := job
		again.RequestedAt = later.Add(time.Hour)
		want := 1
		if current == affiliate.DeliveryPending {
			want = 0
		}
		w.recoverBlock(again, 10, want)
		w.deleteEndpoint(e)
	}
}

// If the endpoint is disabled or deleted after the request, the recovery job changes
// nothing.
func TestRecoverJob_DoesNothingForADisabledEndpoint(t *testing.T) {
	w := newServiceWorld(t)
	for name, end := range map[string]func(affiliate.Endpoint){
		"disabled": func(e affiliate.Endpoint) { w.setActive(e, false) },
		"deleted":  w.deleteEndpoint,
	} {
		e := w.create(w.scope)
		at := w.now.Add(-2 * time.Hour)
		id := w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryDeadLettered, at))
		job := w.newRecovery(e, affiliate.DeliveryDeadLettered)
		w.requestRecovery(job, 1)
		end(e)
		w.recoverBlock(job, 10, 0)
		if got := w.rowText(id); !strings.HasPrefix(got, "dead_lettered") {
			t.Errorf("%s: %s", name, got)
		}
	}
}

// A delivery that another transaction has locked is recovered by the next run of the job.
func TestRecoverJob_RecoversLockedDeliveriesLater(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	at := w.now.Add(-2 * time.Hour)
	free := w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryDeadLettered, at))
	locked := w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryDeadLettered, at))
	job := w.newRecovery(e, affiliate.DeliveryDeadLettered)

	other, err := w.Store.Pool().Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Exec(t.Context(), `select from webhook_deliveries where id = $1 for update`, locked); err != nil {
		t.Fatal(err)
	}
	n, err := webhook.RecoverBlock(t.Context(), w.store, w.oneHourLater, job, 10)
	if snooze := (*river.JobSnoozeError)(nil); n != 1 || !errors.As(err, &snooze) {
		t.Errorf("%d recovered while one delivery is locked, %v", n, err)
	}
	if err := other.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.recoverBlock(job, 10, 1)
	for _, id := range []affiliate.DeliveryID{free, locked} {
		if got, want := w.rowText(id), fmt.Sprintf(restartedRow, 1); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestRecoverJob_WorksInBlocks(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	w.fillDeliveries(e, 5000, w.now, time.Minute)
	job := w.newRecovery(e, affiliate.DeliveryDeadLettered)
	job.Since, job.Until = w.now.AddDate(0, 0, -30), w.now.Add(time.Minute)
	w.requestRecovery(job, 50)
	for _, n := range []int{20, 20, 10, 0} {
		w.recoverBlock(job, 20, n)
	}
	if n := w.Count(`select count(*) from webhook_deliveries where status = 'pending' and due_at = $1`, w.now.Add(time.Hour)); n != 50 {
		t.Errorf("%d deliveries are pending", n)
	}
}
