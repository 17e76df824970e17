package webhook_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

// addDelivery stores a delivery of an event that was created at the given time. changes
// replace columns of the new row.
func (w *serviceWorld) addDelivery(e affiliate.Endpoint, at time.Time, changes ...pgtest.Row) affiliate.DeliveryID {
	w.t.Helper()
	event := affiliate.NewID[affiliate.Event](at)
	var id affiliate.DeliveryID
	if err := w.SQL.QueryRow(w.t.Context(), `select delivery_id($1, $2)`, event, e.ID).Scan(&id); err != nil {
		w.t.Fatal(err)
	}
	w.Insert("webhook_deliveries", append([]pgtest.Row{{
		"workspace_id": e.Scope.Workspace, "endpoint_id": e.ID, "id": id, "day": at.Truncate(24 * time.Hour), "mode": e.Scope.Mode,
		"event_id": event, "event_type": "payout.paid", "epoch": 1, "due_at": at, "created_at": at,
	}}, changes...)...)
	return id
}

// rowWithStatus returns the columns of a delivery that got the status at the given time.
func rowWithStatus(status affiliate.DeliveryStatus, at time.Time) pgtest.Row {
	attempts := fmt.Sprintf(`[{"number": 1, "startedAt": %q, "durationMs": 12, "httpStatusCode": 500, "errorMessage": "http_500"}]`, at.Format(time.RFC3339Nano))
	row := pgtest.Row{"status": status, "attempts": attempts, "attempt_count": 1, "tier": 1, "http_status_code": 500, "error_message": "http_500"}
	switch status {
	case affiliate.DeliveryPending:
		return pgtest.Row{"due_at": at}
	case affiliate.DeliveryFailed:
		row["due_at"] = at.Add(10 * time.Hour)
	default:
		row["due_at"], row["completed_at"] = nil, at
	}
	return row
}

func (w *serviceWorld) delivery(e affiliate.Endpoint, id affiliate.DeliveryID) affiliate.Delivery {
	w.t.Helper()
	d, err := w.webhooks.Delivery(w.t.Context(), w.endpoint(e.Scope, e.ID), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// rowText returns the important columns of a delivery's row as text.
func (w *serviceWorld) rowText(id affiliate.DeliveryID) string {
	w.t.Helper()
	return w.text(`
		select concat_ws(' ', status, 'tier', tier, 'extra', extra, 'epoch', epoch, 'due', coalesce(to_char(due_at, 'DD HH24:MI'), '-'),
			'completed', coalesce(to_char(completed_at, 'DD HH24:MI'), '-'))
		from webhook_deliveries where id = $1`, id)
}

func TestDelivery_IncludesItsAttempts(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	at := w.now.Add(-time.Hour)
	id := w.addDelivery(e, at, rowWithStatus(affiliate.DeliveryFailed, at.Add(time.Minute)))
	code, word := 500, "http_500"
	due := at.Add(time.Minute + 10*time.Hour)
	want := affiliate.Delivery{
		ID: id, Endpoint: e.ID, Type: "payout.paid", Status: affiliate.DeliveryFailed, AttemptCount: 1, HTTPStatusCode: &code, ErrorMessage: &word,
		Attempts:      []affiliate.Attempt{{Number: 1, StartedAt: at.Add(time.Minute), DurationMS: 12, HTTPStatusCode: &code, ErrorMessage: &word}},
		NextAttemptAt: &due, CreatedAt: at,
	}
	got := w.delivery(e, id)
	want.Event, want.CreatedAt = got.Event, got.CreatedAt
	if !reflect.DeepEqual(got, want) || !got.CreatedAt.Equal(at) {
		t.Errorf("%s, want %s", fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
	list, total, err := w.webhooks.Deliveries(t.Context(), w.scope, e.ID, at, affiliate.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 10})
	want.Attempts = nil
	if err != nil || total != 1 || !reflect.DeepEqual(list, []affiliate.Delivery{want}) {
		t.Errorf("%+v of %d, %v", list, total, err)
	}
}

func TestDelivery_OfOtherScopesOrTooOldIsNotFound(t *testing.T) {
	w := newServiceWorld(t)
	e, twin := w.create(w.scope), w.create(w.scope)
	month := w.now.AddDate(0, 0, -30)
	id, old := w.addDelivery(e, month), w.addDelivery(e, month.Add(-time.Millisecond))
	foreign := id
	foreign.UUID[6] = foreign.UUID[6]&0x0f | 0x40
	get := func(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) error {
		_, err := w.service.GetDelivery(w.asMerchant(scope), &affiliatev1.GetDeliveryRequest{WebhookId: endpoint.String(), DeliveryId: id.String()})
		return err
	}
	retry := func(scope affiliate.Scope, endpoint affiliate.EndpointID, id affiliate.DeliveryID) error {
		_, err := w.service.RetryDelivery(w.asMerchant(scope), &affiliatev1.RetryDeliveryRequest{WebhookId: endpoint.String(), DeliveryId: id.String()})
		return err
	}
	if err := get(w.scope, e.ID, id); err != nil {
		t.Error(err)
	}
	for _, tc := range []struct {
		name     string
		endpoint affiliate.EndpointID
		id       affiliate.DeliveryID
	}{
		{"older than 30 days", e.ID, old},
		{"another endpoint", twin.ID, id},
		{"unknown", e.ID, affiliate.NewID[affiliate.Delivery](w.now)},
		{"not a UUIDv7", e.ID, foreign},
		{"zero", e.ID, affiliate.DeliveryID{}},
	} {
		for call, err := range map[string]error{"get": get(w.scope, tc.endpoint, tc.id), "retry": retry(w.scope, tc.endpoint, tc.id)} {
			if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonWebhookNotFound {
				t.Errorf("%s %s: %q", call, tc.name, reason)
			}
		}
	}
	if got := w.rowText(id); !strings.Contains(got, "extra 0") {
		t.Error(got)
	}
	for name, scope := range w.otherScopes() {
		pgtest.RequireRefusal(t, get(scope, e.ID, id), affiliate.ReasonWebhookNotFound)
		if reason := pgtest.ReasonOf(t, retry(scope, e.ID, id)); reason != affiliate.ReasonWebhookNotFound {
			t.Errorf("%s: %q", name, reason)
		}
	}
}

// A delivery that waits for an attempt is canceled when its epoch ends. The API shows this
// immediately, even if a job has not yet changed the row.
func TestDelivery_OfEndedEpochIsShownAsCanceled(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	at := w.now.Add(-time.Hour)
	all := []affiliate.DeliveryStatus{
		affiliate.DeliveryPending, affiliate.DeliveryFailed, affiliate.DeliveryDelivered, affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled,
	}
	ids := map[affiliate.DeliveryStatus]affiliate.DeliveryID{}
	for _, status := range all {
		ids[status] = w.addDelivery(e, at, rowWithStatus(status, at))
	}
	check := func(when string, want map[affiliate.DeliveryStatus]affiliate.DeliveryStatus) {
		t.Helper()
		list, _, err := w.webhooks.Deliveries(t.Context(), w.scope, e.ID, at, affiliate.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 10})
		if err != nil || len(list) != len(all) {
			t.Fatal(len(list), err)
		}
		for _, status := range all {
			detail := w.delivery(e, ids[status])
			i := slices.IndexFunc(list, func(d affiliate.Delivery) bool { return d.ID == detail.ID })
			if detail.Status != want[status] || list[i].Status != want[status] {
				t.Errorf("%s: %s has the status %s, in the list %s", when, status, detail.Status, list[i].Status)
			}
			waiting := want[status] == affiliate.DeliveryPending || want[status] == affiliate.DeliveryFailed
			if waiting != (detail.NextAttemptAt != nil) || waiting != (list[i].NextAttemptAt != nil) {
				t.Errorf("%s: %s has the next attempt at %v, in the list %v", when, status, detail.NextAttemptAt, list[i].NextAttemptAt)
			}
		}
	}
	want := map[affiliate.DeliveryStatus]affiliate.DeliveryStatus{}
	for _, status := range all {
		want[status] = status
	}
	check("enabled", want)
	w.setActive(e, false)
	want[affiliate.DeliveryPending], want[affiliate.DeliveryFailed] = affiliate.DeliveryCanceled, affiliate.DeliveryCanceled
	check("disabled", want)
	w.setActive(e, true)
	check("enabled again", want)
	w.cancelBlock(e, 10, 2)
	check("after the cancel job", want)
}

func TestDeliveries_FiltersAndPagesNewestFirst(t *testing.T) {
	w := newServiceWorld(t)
	e, twin := w.create(w.scope), w.create(w.scope)
	if _, err := w.Store.EnsureEventPartitions(t.Context(), w.now.AddDate(0, 0, -7), w.now); err != nil {
		t.Fatal(err)
	}
	// The deliveries are in three partitions: the default partition and two weeks.
	var ids []affiliate.DeliveryID
	for day := 16; day >= 0; day -= 4 {
		ids = append(ids, w.addDelivery(e, w.now.AddDate(0, 0, -day), rowWithStatus(affiliate.DeliveryDeadLettered, w.now)))
		w.addDelivery(twin, w.now.AddDate(0, 0, -day))
	}
	slices.Reverse(ids) // the newest first
	delivered := w.addDelivery(e, w.now.Add(-time.Minute), rowWithStatus(affiliate.DeliveryDelivered, w.now))
	ids = slices.Insert(ids, 1, delivered)
	var event affiliate.EventID
	if err := w.SQL.QueryRow(t.Context(), `select event_id from webhook_deliveries where id = $1`, ids[2]).Scan(&event); err != nil {
		t.Fatal(err)
	}
	dead, canceled, ok := affiliate.DeliveryDeadLettered, affiliate.DeliveryCanceled, affiliate.DeliveryDelivered
	month := w.now.AddDate(0, 0, -30)
	for _, tc := range []struct {
		name   string
		since  time.Time
		filter affiliate.DeliveryFilter
		page   affiliate.Page
		want   []affiliate.DeliveryID
		total  int64
	}{
		{"all", month, affiliate.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 100}, ids, 6},
		{"a page", month, affiliate.DeliveryFilter{}, affiliate.Page{Number: 2, Size: 2}, ids[2:4], 6},
		{"the last page", month, affiliate.DeliveryFilter{}, affiliate.Page{Number: 2, Size: 4}, ids[4:], 6},
		{"after the last page", month, affiliate.DeliveryFilter{}, affiliate.Page{Number: 9, Size: 4}, nil, 6},
		{"since an event", w.now.AddDate(0, 0, -8), affiliate.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 100}, ids[:4], 4},
		{"since after an event", w.now.AddDate(0, 0, -8).Add(time.Millisecond), affiliate.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 100}, ids[:3], 3},
		{"a status", month, affiliate.DeliveryFilter{Status: &dead}, affiliate.Page{Number: 1, Size: 3}, []affiliate.DeliveryID{ids[0], ids[2], ids[3]}, 5},
		{"delivered", month, affiliate.DeliveryFilter{Status: &ok}, affiliate.Page{Number: 1, Size: 3}, ids[1:2], 1},
		{"a status without deliveries", month, affiliate.DeliveryFilter{Status: &canceled}, affiliate.Page{Number: 1, Size: 3}, nil, 0},
		{"an event", month, affiliate.DeliveryFilter{Event: &event}, affiliate.Page{Number: 1, Size: 3}, ids[2:3], 1},
		{"an event and a status", month, affiliate.DeliveryFilter{Event: &event, Status: &ok}, affiliate.Page{Number: 1, Size: 3}, nil, 0},
		{"an older event", w.now, affiliate.DeliveryFilter{Event: &event}, affiliate.Page{Number: 1, Size: 3}, nil, 0},
	} {
		list, total, err := w.webhooks.Deliveries(t.Context(), w.scope, e.ID, tc.since, tc.filter, tc.page)
		var got []affiliate.DeliveryID
		for _, d := range list {
			got = append(got, d.ID)
		}
		if err != nil || total != tc.total || !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v of %d, %v, want %v of %d", tc.name, got, total, err, tc.want, tc.total)
		}
	}
	for _, unknown := range []affiliate.EventID{affiliate.NewID[affiliate.Event](w.now), {}} {
		_, _, err := w.webhooks.Deliveries(t.Context(), w.scope, e.ID, month, affiliate.DeliveryFilter{Event: &unknown}, affiliate.Page{Number: 1, Size: 3})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

// A retry is one additional attempt now. It does not change the status of a delivery that
// has ended or was canceled.
func TestRetryDelivery(t *testing.T) {
	w := newServiceWorld(t)
	at := w.now.Add(-time.Hour)
	var woken []affiliate.EndpointKey
	w.Store.OnDeliveries(func(endpoints []affiliate.EndpointKey) { woken = append(woken, endpoints...) })
	for _, tc := range []struct {
		name    string
		status  affiliate.DeliveryStatus
		off     bool // the endpoint was disabled and enabled again
		cancel  bool // the cancel job ran after that
		retries int
		stored  string
	}{
		{"pending", affiliate.DeliveryPending, false, false, 1, "pending tier 0 extra 1 epoch 1 due 18 12:30 completed -"},
		{"failed", affiliate.DeliveryFailed, false, false, 2, "failed tier 1 extra 2 epoch 1 due 18 12:30 completed -"},
		{"delivered", affiliate.DeliveryDelivered, false, false, 1, "delivered tier 1 extra 1 epoch 1 due 18 12:30 completed 18 11:00"},
		{"dead-lettered", affiliate.DeliveryDeadLettered, false, false, 3, "dead_lettered tier 1 extra 3 epoch 1 due 18 12:30 completed 18 11:00"},
		{"more than 100 retries", affiliate.DeliveryDelivered, false, false, 101, "delivered tier 1 extra 100 epoch 1 due 18 12:30 completed 18 11:00"},
		{"canceled, before the job", affiliate.DeliveryFailed, true, false, 2, "canceled tier 1 extra 2 epoch 2 due 18 12:30 completed 18 12:00"},
		{"canceled", affiliate.DeliveryPending, true, true, 1, "canceled tier 0 extra 1 epoch 2 due 18 12:30 completed 18 12:00"},
		{"delivered before the endpoint was disabled", affiliate.DeliveryDelivered, true, true, 1, "delivered tier 1 extra 1 epoch 2 due 18 12:30 completed 18 11:00"},
	} {
		e := w.create(w.scope)
		id := w.addDelivery(e, at, rowWithStatus(tc.status, at))
		if tc.off {
			w.setActive(e, false)
			w.setActive(e, true)
		}
		if tc.cancel {
			w.cancelAllDeliveries(e)
		}
		woken = nil
		began, now := w.now, w.now.Add(30*time.Minute)
		for range tc.retries {
			w.now = now
			d, err := w.service.RetryDelivery(w.asMerchant(w.scope), &affiliatev1.RetryDeliveryRequest{WebhookId: e.ID.String(), DeliveryId: id.String()})
			if err != nil || d.GetRequestUrl() != e.URL || statusOf(d.GetStatus()) != w.delivery(e, id).Status || !d.GetNextAttemptAt().AsTime().Equal(now) {
				t.Fatalf("%s: %+v, %v", tc.name, d, err)
			}
		}
		if got := w.rowText(id); got != tc.stored {
			t.Errorf("%s: %s", tc.name, got)
		}
		key := affiliate.EndpointKey{Workspace: w.scope.Workspace, ID: e.ID}
		if len(woken) != tc.retries || woken[0] != key {
			t.Errorf("%s: wakeups of %v", tc.name, woken)
		}
		if line := w.lastAudit(e); !strings.HasPrefix(line, "webhook.retry_delivery - ") || !strings.Contains(line, id.String()) {
			t.Errorf("%s: %s", tc.name, line)
		}
		w.deleteEndpoint(e)
		w.now = began
	}
}

func TestRetryAndRecover_OfDisabledEndpointAreRefused(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	id := w.addDelivery(e, w.now)
	w.setActive(e, false)
	_, err := w.service.RetryDelivery(w.asMerchant(w.scope), &affiliatev1.RetryDeliveryRequest{WebhookId: e.ID.String(), DeliveryId: id.String()})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookDisabled)
	_, err = w.service.RecoverDeliveries(w.asMerchant(w.scope), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: e.ID.String(), Since: timestamppb.New(w.now.Add(-time.Hour)),
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookDisabled)
	if got := w.rowText(id); !strings.Contains(got, "extra 0") || w.CountJobs("recover_deliveries") != 0 {
		t.Error(got)
	}
}

func TestDeliveries_TotalIsExact(t *testing.T) {
	w := newServiceWorld(t)
	e := w.create(w.scope)
	w.fillDeliveries(e, affiliate.MaxSearchTotal+150, w.now, time.Second)
	month, dead := w.now.AddDate(0, 0, -30), affiliate.DeliveryDeadLettered
	for _, tc := range []struct {
		filter affiliate.DeliveryFilter
		number int
		rows   int
		total  int64
	}{
		{affiliate.DeliveryFilter{}, 1, 100, affiliate.MaxSearchTotal + 150},
		{affiliate.DeliveryFilter{}, 102, 50, affiliate.MaxSearchTotal + 150},
		{affiliate.DeliveryFilter{}, 200, 0, affiliate.MaxSearchTotal + 150},
		{affiliate.DeliveryFilter{Status: &dead}, 1, 100, 102},
	} {
		list, total, err := w.webhooks.Deliveries(t.Context(), w.scope, e.ID, month, tc.filter, affiliate.Page{Number: tc.number, Size: 100})
		if err != nil || len(list) != tc.rows || total != tc.total {
			t.Errorf("page %d: %d of %d, %v", tc.number, len(list), total, err)
		}
	}
}
