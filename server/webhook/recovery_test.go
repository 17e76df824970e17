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
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	webhookservice "github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// publishWithDeadLetters publishes n events. The newest event occurs now, and each other
// event occurs one interval before the next. Each hundredth delivery to e is
// dead-lettered, the others are pending. publishWithDeadLetters returns the number of
// dead letters.
func (f *fixture) publishWithDeadLetters(e webhook.Endpoint, n int, interval time.Duration) int {
	f.Helper()
	times := make([]time.Time, n)
	for i := range times {
		times[i] = f.Now().Add(-time.Duration(i) * interval)
	}
	publish(f.Shop, times...)
	list, _, err := webhooks.Deliveries(f.Context(), f.DB, f.Scope, e.ID, times[n-1], webhook.DeliveryFilter{}, affiliate.Page{Number: 1, Size: n})
	if err != nil {
		f.Fatal(err)
	}
	var dead []affiliate.DeliveryID
	for i := 0; i < len(list); i += 100 {
		dead = append(dead, list[i].ID)
	}
	f.setStatus(e, webhook.DeliveryDeadLettered, f.Now(), dead...)
	return len(dead)
}

func TestCancelJob_CancelsDeliveriesOfEndedEpochs(t *testing.T) {
	f := newFixture(t)
	e, otherEndpoint := f.createEndpoint(), f.createEndpoint()
	at := f.Now().Add(-time.Hour)
	retried := f.newDelivery(e, at, webhook.DeliveryDelivered)
	if _, err := f.retry(e, retried); err != nil {
		t.Fatal(err)
	}
	wantStates := map[affiliate.DeliveryID]string{retried: "delivered tier 1 extra 0 epoch 1 due - completed 11:00"}
	for status, want := range map[webhook.DeliveryStatus]string{
		webhook.DeliveryPending:      "canceled tier 0 extra 0 epoch 1 due - completed 12:00",
		webhook.DeliveryFailed:       "canceled tier 1 extra 0 epoch 1 due - completed 12:00",
		webhook.DeliveryDeadLettered: "dead_lettered tier 1 extra 0 epoch 1 due - completed 11:00",
		webhook.DeliveryCanceled:     "canceled tier 1 extra 0 epoch 1 due - completed 11:00",
	} {
		wantStates[f.newDelivery(e, at, status)] = want
	}
	event := publish(f.Shop, at)[0]
	ofOtherEndpoint := f.deliveryOf(otherEndpoint, event).ID
	wantStates[f.deliveryOf(e, event).ID] = "canceled tier 0 extra 0 epoch 1 due - completed 12:00"

	f.cancelBlock(e, 10, 0)
	f.setActive(e, false)
	for _, other := range f.otherShops() {
		f.cancelBlock(webhook.Endpoint{ID: e.ID, Scope: other.Scope}, 10, 0)
	}
	f.setActive(e, true)
	current := f.newDelivery(e, at, webhook.DeliveryPending)
	f.cancelBlock(e, 3, 3)
	f.cancelBlock(e, 3, 1)
	f.cancelBlock(e, 3, 0)
	for id, want := range wantStates {
		if got := f.stateOf(e, id); got != want {
			t.Errorf("after the cancel job, a delivery is %s, want %s", got, want)
		}
	}
	if got, want := f.stateOf(otherEndpoint, ofOtherEndpoint), "pending tier 0 extra 0 epoch 1 due 11:00 completed -"; got != want {
		t.Errorf("after the cancel job, the delivery of another endpoint is %s, want %s", got, want)
	}
	if got, want := f.stateOf(e, current), "pending tier 0 extra 0 epoch 2 due 11:00 completed -"; got != want {
		t.Errorf("after the cancel job, the delivery of the current epoch is %s, want %s", got, want)
	}
	f.deleteEndpoint(e)
	f.cancelBlock(e, 10, 1)
	if got, want := f.stateOf(e, current), "canceled tier 0 extra 0 epoch 2 due - completed 12:00"; got != want {
		t.Errorf("after the endpoint was deleted, its delivery is %s, want %s", got, want)
	}
}

// newRecovery returns a job, requested now, that recovers the deliveries of an endpoint
// from three hours ago until one hour ago.
func (f *fixture) newRecovery(e webhook.Endpoint, statuses ...webhook.DeliveryStatus) webhook.RecoverDeliveries {
	return webhook.RecoverDeliveries{
		Workspace: e.Workspace, Mode: e.Mode, Endpoint: e.ID,
		Since: f.Now().Add(-3 * time.Hour), Until: f.Now().Add(-time.Hour), RequestedAt: f.Now(), Statuses: statuses,
	}
}

// recoverBlock runs one block of a recovery job, with a clock that is one hour ahead. A
// block is one transaction, which changes at most limit deliveries. The block must
// recover exactly wantRecovered deliveries.
func (f *fixture) recoverBlock(job webhook.RecoverDeliveries, limit, wantRecovered int) {
	f.Helper()
	n, err := webhookservice.RecoverBlock(f.Context(), f.DB, f.oneHourLater, job, limit)
	if err != nil || n != wantRecovered {
		f.Fatalf("a block of the recovery job recovered %d deliveries, error %v, want %d", n, err, wantRecovered)
	}
}

// requestRecovery calls RecoverDeliveries with the endpoint, times and statuses of job.
// The request must select exactly wantQueued deliveries.
func (f *fixture) requestRecovery(job webhook.RecoverDeliveries, wantQueued int) {
	f.Helper()
	req := &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: job.Endpoint.String(), Since: timestamppb.New(job.Since), Until: timestamppb.New(job.Until),
	}
	for _, status := range job.Statuses {
		req.Statuses = append(req.Statuses, server.EnumValue[affiliatev1.DeliveryStatus](status))
	}
	res, err := f.service.RecoverDeliveries(f.asOwner(), req)
	if err != nil || res.GetQueued() != int64(wantQueued) {
		f.Fatalf("RecoverDeliveries returned %v, error %v, want %d queued deliveries", res, err, wantQueued)
	}
}

// restarted is the state of a delivery whose schedule was started again (see stateOf).
// The verb %d stands for the epoch of the endpoint.
const restarted = "pending tier 0 extra 0 epoch %d due 13:00 completed -"

// A recovery gives the selected deliveries a new schedule. It changes no other delivery.
func TestRecoverDeliveries_RestartsTheSelectedDeliveries(t *testing.T) {
	const (
		pending, delivered, failed = webhook.DeliveryPending, webhook.DeliveryDelivered, webhook.DeliveryFailed
		dead, canceled             = webhook.DeliveryDeadLettered, webhook.DeliveryCanceled
	)
	type statuses = []webhook.DeliveryStatus
	f := newFixture(t)
	var woken []webhook.EndpointKey
	f.DB.OnDeliveries(func(endpoints []webhook.EndpointKey) { woken = append(woken, endpoints...) })
	others := f.otherShops()
	for i, tc := range []struct {
		name          string
		requested     statuses
		reenabled     bool     // the endpoint was disabled and enabled again
		cancelJob     bool     // the cancel job ran afterwards
		wantRestarted statuses // original statuses of the restarted deliveries
	}{
		{"dead-lettered or canceled", statuses{dead, canceled}, false, false, statuses{dead, canceled}},
		{"dead-lettered", statuses{dead}, false, false, statuses{dead}},
		{"failed", statuses{failed}, false, false, statuses{failed}},
		{"delivered", statuses{delivered}, false, false, statuses{delivered}},
		{"canceled, the cancel job has not run", statuses{canceled}, true, false, statuses{pending, failed, canceled}},
		{"canceled, the cancel job has run", statuses{canceled}, true, true, statuses{pending, failed, canceled}},
		{"failed and then canceled, the cancel job has not run", statuses{failed}, true, false, nil},
		{"dead-lettered before the endpoint was disabled", statuses{dead}, true, false, statuses{dead}},
		{"all", statuses{failed, delivered, dead, canceled}, true, false, allStatuses},
	} {
		e := f.createEndpoint()
		ids := map[webhook.DeliveryStatus]affiliate.DeliveryID{}
		for _, status := range allStatuses {
			ids[status] = f.newDelivery(e, f.Now().Add(-2*time.Hour), status)
		}
		tooOld := f.newDelivery(e, f.Now().Add(-3*time.Hour-time.Millisecond), dead)
		tooNew := f.newDelivery(e, f.Now().Add(-time.Hour), dead)
		epoch := 1
		if tc.reenabled {
			f.setActive(e, false)
			f.setActive(e, true)
			epoch = 2
		}
		if tc.cancelJob {
			f.cancelBlock(e, 10, 2)
		}
		wantStates := map[affiliate.DeliveryID]string{tooOld: f.stateOf(e, tooOld), tooNew: f.stateOf(e, tooNew)}
		for _, id := range ids {
			wantStates[id] = f.stateOf(e, id)
		}
		for _, status := range tc.wantRestarted {
			wantStates[ids[status]] = fmt.Sprintf(restarted, epoch)
		}
		woken = nil
		job := f.newRecovery(e, tc.requested...)
		f.requestRecovery(job, len(tc.wantRestarted))
		if n := f.CountJobs("recover_deliveries"); n != i+1 {
			t.Errorf("%s: there are %d recovery jobs, want %d", tc.name, n, i+1)
		}
		if line := f.lastAudit(e); !strings.HasPrefix(line, "webhook.recover - ") || !strings.Contains(line, `"2026-03-18T09:00:00.000Z"`) {
			t.Errorf("%s: the last audit record is %s, want webhook.recover since 2026-03-18T09:00:00.000Z", tc.name, line)
		}
		for _, other := range others {
			foreign := job
			foreign.Workspace, foreign.Mode = other.Scope.Workspace, other.Scope.Mode
			f.recoverBlock(foreign, 10, 0)
		}
		if len(tc.wantRestarted) == 1 {
			f.recoverBlock(job, 1, 1)
		} else {
			f.recoverBlock(job, 10, len(tc.wantRestarted))
		}
		f.recoverBlock(job, 1, 0)
		for id, want := range wantStates {
			if got := f.stateOf(e, id); got != want {
				t.Errorf("%s: a delivery is %s, want %s", tc.name, got, want)
			}
		}
		if want := min(len(tc.wantRestarted), 1); len(woken) != want {
			t.Errorf("%s: the sender was woken for %v, want %d wakeups", tc.name, woken, want)
		}
		f.deleteEndpoint(e)
	}
}

// If a recovery job runs again, it does not change deliveries that it has already
// restarted, whatever their status is now.
func TestRecoverJob_RunsAgain(t *testing.T) {
	f := newFixture(t)
	requested := []webhook.DeliveryStatus{
		webhook.DeliveryFailed, webhook.DeliveryDelivered, webhook.DeliveryDeadLettered, webhook.DeliveryCanceled,
	}
	for _, status := range allStatuses {
		e := f.createEndpoint()
		id := f.newDelivery(e, f.Now().Add(-2*time.Hour), webhook.DeliveryDeadLettered)
		job := f.newRecovery(e, requested...)
		f.recoverBlock(job, 10, 1)
		f.clock.Advance(90 * time.Minute)
		switch status {
		case webhook.DeliveryPending:
		case webhook.DeliveryCanceled:
			f.setActive(e, false)
			f.setActive(e, true)
			f.recoverBlock(job, 10, 0)
			f.cancelBlock(e, 10, 1)
		default:
			f.setStatus(e, status, f.Now(), id)
		}
		before := f.stateOf(e, id)
		f.recoverBlock(job, 10, 0)
		if got := f.stateOf(e, id); got != before {
			t.Errorf("%s: the second run changed the delivery to %s, want %s", status, got, before)
		}
		// A second recovery restarts deliveries that ended after the first recovery.
		again := job
		again.RequestedAt = f.Now().Add(time.Hour)
		want := 1
		if status == webhook.DeliveryPending {
			want = 0
		}
		f.recoverBlock(again, 10, want)
		f.deleteEndpoint(e)
		f.clock.Advance(-90 * time.Minute)
	}
}

// If the endpoint is disabled or deleted after the request, the recovery job changes
// nothing.
func TestRecoverJob_DoesNothingForADisabledEndpoint(t *testing.T) {
	f := newFixture(t)
	for name, endEpoch := range map[string]func(webhook.Endpoint){
		"disabled": func(e webhook.Endpoint) { f.setActive(e, false) },
		"deleted":  f.deleteEndpoint,
	} {
		e := f.createEndpoint()
		id := f.newDelivery(e, f.Now().Add(-2*time.Hour), webhook.DeliveryDeadLettered)
		job := f.newRecovery(e, webhook.DeliveryDeadLettered)
		f.requestRecovery(job, 1)
		before := f.stateOf(e, id)
		endEpoch(e)
		f.recoverBlock(job, 10, 0)
		if got := f.stateOf(e, id); got != before {
			t.Errorf("%s: the job changed the delivery to %s, want %s", name, got, before)
		}
	}
}

// A delivery that another transaction has locked is recovered by the next run of the job.
func TestRecoverJob_RecoversLockedDeliveriesLater(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	free := f.newDelivery(e, f.Now().Add(-2*time.Hour), webhook.DeliveryDeadLettered)
	locked := f.newDelivery(e, f.Now().Add(-2*time.Hour), webhook.DeliveryDeadLettered)
	job := f.newRecovery(e, webhook.DeliveryDeadLettered)
	err := f.DB.InTx(t.Context(), func(tx *postgres.Tx) error {
		if _, err := webhooks.LockDelivery(t.Context(), tx, f.Scope, e.ID, locked); err != nil {
			return err
		}
		n, err := webhookservice.RecoverBlock(t.Context(), f.DB, f.oneHourLater, job, 10)
		if snooze := (*river.JobSnoozeError)(nil); n != 1 || !errors.As(err, &snooze) {
			t.Errorf("while one of two deliveries is locked, the job recovered %d, error %v, want 1 and another run soon", n, err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.recoverBlock(job, 10, 1)
	for _, id := range []affiliate.DeliveryID{free, locked} {
		if got, want := f.stateOf(e, id), fmt.Sprintf(restarted, 1); got != want {
			t.Errorf("after the second run, a delivery is %s, want %s", got, want)
		}
	}
}

func TestRecoverJob_WorksInBlocks(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	f.publishWithDeadLetters(e, 5000, time.Minute)
	job := f.newRecovery(e, webhook.DeliveryDeadLettered)
	job.Since, job.Until = f.Now().AddDate(0, 0, -30), f.Now().Add(time.Minute)
	f.requestRecovery(job, 50)
	for _, n := range []int{20, 20, 10, 0} {
		f.recoverBlock(job, 20, n)
	}
	if n := f.Count(`select count(*) from webhook_deliveries where status = 'pending' and due_at = $1`, f.oneHourLater()); n != 50 {
		t.Errorf("%d deliveries are due in one hour, want 50", n)
	}
}
