package webhook_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// allStatuses are the statuses of deliveries.
var allStatuses = []webhook.DeliveryStatus{
	webhook.DeliveryPending, webhook.DeliveryFailed, webhook.DeliveryDelivered, webhook.DeliveryDeadLettered, webhook.DeliveryCanceled,
}

// waitsForAttempt reports whether deliveries with the status wait for their next attempt.
func waitsForAttempt(status webhook.DeliveryStatus) bool {
	return status == webhook.DeliveryPending || status == webhook.DeliveryFailed
}

func (f *fixture) delivery(e webhook.Endpoint, id affiliate.DeliveryID) webhook.Delivery {
	f.Helper()
	d, err := webhooks.Delivery(f.Context(), f.DB, f.endpoint(e.ID), id)
	if err != nil {
		f.Fatal(err)
	}
	return d
}

func TestDelivery_IncludesItsAttempts(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	event := publish(f.Shop, f.Now().Add(-time.Hour))[0]
	id, attempted := f.deliveryOf(e, event).ID, event.At.Add(time.Minute)
	f.setStatus(e, webhook.DeliveryFailed, attempted, id)
	want := &affiliatev1.Delivery{
		Id: id.String(), EventId: event.WireID(), EventType: "payout.paid", Status: affiliatev1.DeliveryStatus_DELIVERY_STATUS_FAILED,
		AttemptCount: 1, HttpStatusCode: new(int32(500)), ErrorMessage: new("http_500"),
		NextAttemptAt: server.Timestamp(attempted.Add(10 * time.Hour)), CreatedAt: server.Timestamp(event.At),
	}
	wantDetail := &affiliatev1.DeliveryDetail{
		RequestUrl: endpointURL, Payload: &f.Texts(`select convert_from(body, 'UTF8') from events where id = $1`, event.ID)[0],
		Attempts: []*affiliatev1.DeliveryAttempt{{
			Number: 1, StartedAt: server.Timestamp(attempted), DurationMs: 12, HttpStatusCode: new(int32(500)), ErrorMessage: new("http_500"),
		}},
	}
	server.CopyShared(wantDetail.ProtoReflect(), want.ProtoReflect())
	got, err := f.service.GetDelivery(f.asOwner(), &affiliatev1.GetDeliveryRequest{WebhookId: e.ID.String(), DeliveryId: id.String()})
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(got, wantDetail) {
		t.Errorf("GetDelivery returned\n%v, want\n%v", got, wantDetail)
	}
	list, err := f.service.ListDeliveries(f.asOwner(), &affiliatev1.ListDeliveriesRequest{WebhookId: e.ID.String()})
	if err != nil {
		t.Fatal(err)
	}
	if len(list.GetData()) != 1 || !proto.Equal(list.GetData()[0], want) {
		t.Errorf("ListDeliveries returned\n%v, want\n%v", list.GetData(), want)
	}
}

func TestDelivery_OfOtherEndpointOrTooOldIsNotFound(t *testing.T) {
	f := newFixture(t)
	e, other := f.createEndpoint(), f.createEndpoint()
	monthAgo := f.Now().AddDate(0, 0, -30)
	id := f.newDelivery(e, monthAgo, webhook.DeliveryPending)
	old := f.newDelivery(e, monthAgo.Add(-time.Millisecond), webhook.DeliveryPending)
	notUUIDv7 := id
	notUUIDv7.UUID[6] = notUUIDv7.UUID[6]&0x0f | 0x40 // version 4
	get := func(e webhook.Endpoint, id affiliate.DeliveryID) error {
		_, err := f.service.GetDelivery(f.asOwner(), &affiliatev1.GetDeliveryRequest{WebhookId: e.ID.String(), DeliveryId: id.String()})
		return err
	}
	retry := func(e webhook.Endpoint, id affiliate.DeliveryID) error {
		_, err := f.retry(e, id)
		return err
	}
	if err := get(e, id); err != nil {
		t.Errorf("GetDelivery of an event that is 30 days old returned the error %v, want none", err)
	}
	for _, tc := range []struct {
		name     string
		endpoint webhook.Endpoint
		id       affiliate.DeliveryID
	}{
		{"older than 30 days", e, old},
		{"another endpoint", other, id},
		{"unknown", e, affiliate.NewID[affiliate.DeliveryID](f.Now())},
		{"not a UUIDv7", e, notUUIDv7},
		{"zero", e, affiliate.DeliveryID{}},
	} {
		for call, err := range map[string]error{"GetDelivery": get(tc.endpoint, tc.id), "RetryDelivery": retry(tc.endpoint, tc.id)} {
			if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonWebhookNotFound {
				t.Errorf("%s: %s returned the error %q, want %s", tc.name, call, reason, affiliate.ReasonWebhookNotFound)
			}
		}
	}
	if got := f.stateOf(e, id); !strings.Contains(got, "extra 0") {
		t.Errorf("a refused retry changed the delivery to %q, want no additional attempt (extra 0)", got)
	}
}

// The epoch of an endpoint ends when the endpoint is disabled or deleted. This cancels
// the deliveries that wait for an attempt. The API shows them as canceled immediately,
// even if the cancel job has not changed their rows yet.
func TestDelivery_OfEndedEpochIsShownAsCanceled(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	at := f.Now().Add(-time.Hour)
	ids := map[webhook.DeliveryStatus]affiliate.DeliveryID{}
	for _, status := range allStatuses {
		ids[status] = f.newDelivery(e, at, status)
	}
	check := func(when string, wantForWaiting map[webhook.DeliveryStatus]webhook.DeliveryStatus) {
		t.Helper()
		list, _, err := webhooks.Deliveries(t.Context(), f.DB, f.Scope, e.ID, at, webhook.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 10})
		if err != nil {
			t.Fatal(err)
		}
		for _, status := range allStatuses {
			want := status
			if waitsForAttempt(status) {
				want = wantForWaiting[status]
			}
			i := slices.IndexFunc(list, func(d webhook.Delivery) bool { return d.ID == ids[status] })
			if i < 0 {
				t.Fatalf("%s: the list does not contain the %s delivery", when, status)
			}
			for name, d := range map[string]webhook.Delivery{"detail": f.delivery(e, ids[status]), "list": list[i]} {
				if d.Status != want {
					t.Errorf("%s: in the %s, the status of the %s delivery is %s, want %s", when, name, status, d.Status, want)
				}
				if got := d.NextAttemptAt != nil; got != waitsForAttempt(want) {
					t.Errorf("%s: in the %s, the next attempt of the %s delivery is at %s, want a time: %v", when, name, status, optional(d.NextAttemptAt), waitsForAttempt(want))
				}
			}
		}
	}
	unchanged := map[webhook.DeliveryStatus]webhook.DeliveryStatus{
		webhook.DeliveryPending: webhook.DeliveryPending, webhook.DeliveryFailed: webhook.DeliveryFailed,
	}
	canceled := map[webhook.DeliveryStatus]webhook.DeliveryStatus{
		webhook.DeliveryPending: webhook.DeliveryCanceled, webhook.DeliveryFailed: webhook.DeliveryCanceled,
	}
	check("enabled", unchanged)
	f.setActive(e, false)
	check("disabled", canceled)
	f.setActive(e, true)
	check("enabled again", canceled)
	f.cancelBlock(e, 10, 2)
	check("after the cancel job", canceled)
}

func TestDeliveries_FiltersAndPagesNewestFirst(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	f.createEndpoint() // it gets the same events
	if _, err := postgres.EnsureWeekPartitions(t.Context(), f.DB, f.Now().AddDate(0, 0, -7), f.Now()); err != nil {
		t.Fatal(err)
	}
	// The deliveries are in three partitions: the default partition and the partitions
	// of two weeks.
	var ids []affiliate.DeliveryID // newest first
	var events []affiliate.EventID
	for _, age := range []time.Duration{0, time.Minute, 4 * 24 * time.Hour, 8 * 24 * time.Hour, 12 * 24 * time.Hour, 16 * 24 * time.Hour} {
		event := publish(f.Shop, f.Now().Add(-age))[0]
		ids, events = append(ids, f.deliveryOf(e, event).ID), append(events, event.ID)
	}
	f.setStatus(e, webhook.DeliveryDelivered, f.Now(), ids[1])
	f.setStatus(e, webhook.DeliveryDeadLettered, f.Now(), slices.Delete(slices.Clone(ids), 1, 2)...)
	dead, canceled, delivered := webhook.DeliveryDeadLettered, webhook.DeliveryCanceled, webhook.DeliveryDelivered
	monthAgo := f.Now().AddDate(0, 0, -30)
	for _, tc := range []struct {
		name      string
		since     time.Time
		filter    webhook.DeliveryFilter
		page      affiliate.Page
		want      []affiliate.DeliveryID
		wantTotal int64
	}{
		{"all", monthAgo, webhook.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 100}, ids, 6},
		{"a page", monthAgo, webhook.DeliveryFilter{}, affiliate.Page{Number: 2, Size: 2}, ids[2:4], 6},
		{"the last page", monthAgo, webhook.DeliveryFilter{}, affiliate.Page{Number: 2, Size: 4}, ids[4:], 6},
		{"after the last page", monthAgo, webhook.DeliveryFilter{}, affiliate.Page{Number: 9, Size: 4}, nil, 6},
		{"since the time of an event", f.Now().AddDate(0, 0, -8), webhook.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 100}, ids[:4], 4},
		{"since 1 ms after an event", f.Now().AddDate(0, 0, -8).Add(time.Millisecond), webhook.DeliveryFilter{}, affiliate.Page{Number: 1, Size: 100}, ids[:3], 3},
		{"a status", monthAgo, webhook.DeliveryFilter{Status: &dead}, affiliate.Page{Number: 1, Size: 3}, []affiliate.DeliveryID{ids[0], ids[2], ids[3]}, 5},
		{"delivered", monthAgo, webhook.DeliveryFilter{Status: &delivered}, affiliate.Page{Number: 1, Size: 3}, ids[1:2], 1},
		{"a status without deliveries", monthAgo, webhook.DeliveryFilter{Status: &canceled}, affiliate.Page{Number: 1, Size: 3}, nil, 0},
		{"an event", monthAgo, webhook.DeliveryFilter{Event: &events[2]}, affiliate.Page{Number: 1, Size: 3}, ids[2:3], 1},
		{"an event and a status", monthAgo, webhook.DeliveryFilter{Event: &events[2], Status: &delivered}, affiliate.Page{Number: 1, Size: 3}, nil, 0},
		{"an event before since", f.Now(), webhook.DeliveryFilter{Event: &events[2]}, affiliate.Page{Number: 1, Size: 3}, nil, 0},
	} {
		list, total, err := webhooks.Deliveries(t.Context(), f.DB, f.Scope, e.ID, tc.since, tc.filter, tc.page)
		if err != nil {
			t.Fatalf("%s: %v", tc.name, err)
		}
		var got []affiliate.DeliveryID
		for _, d := range list {
			got = append(got, d.ID)
		}
		if !slices.Equal(got, tc.want) || total != tc.wantTotal {
			t.Errorf("%s: Deliveries returned %v of %d, want %v of %d", tc.name, got, total, tc.want, tc.wantTotal)
		}
	}
	for _, unknown := range []affiliate.EventID{affiliate.NewID[affiliate.EventID](f.Now()), {}} {
		_, _, err := webhooks.Deliveries(t.Context(), f.DB, f.Scope, e.ID, monthAgo, webhook.DeliveryFilter{Event: &unknown}, affiliate.Page{Number: 1, Size: 3})
		pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	}
}

// A retry is one additional attempt, which is due now. It does not change the status of a
// delivery that has ended or was canceled.
func TestRetryDelivery(t *testing.T) {
	f := newFixture(t)
	published := f.Now().Add(-time.Hour)
	var woken []webhook.EndpointKey
	f.DB.OnDeliveries(func(endpoints []webhook.EndpointKey) { woken = append(woken, endpoints...) })
	for _, tc := range []struct {
		name      string
		status    webhook.DeliveryStatus
		reenabled bool // the endpoint was disabled and enabled again
		cancelJob bool // the cancel job ran afterwards
		retries   int
		want      string // see stateOf
	}{
		{"pending", webhook.DeliveryPending, false, false, 1, "pending tier 0 extra 1 epoch 1 due 12:30 completed -"},
		{"failed", webhook.DeliveryFailed, false, false, 2, "failed tier 1 extra 2 epoch 1 due 12:30 completed -"},
		{"delivered", webhook.DeliveryDelivered, false, false, 1, "delivered tier 1 extra 1 epoch 1 due 12:30 completed 11:00"},
		{"dead-lettered", webhook.DeliveryDeadLettered, false, false, 3, "dead_lettered tier 1 extra 3 epoch 1 due 12:30 completed 11:00"},
		{"more than 100 retries", webhook.DeliveryDelivered, false, false, 101, "delivered tier 1 extra 100 epoch 1 due 12:30 completed 11:00"},
		{"canceled, the cancel job has not run", webhook.DeliveryFailed, true, false, 2, "canceled tier 1 extra 2 epoch 2 due 12:30 completed 12:00"},
		{"canceled", webhook.DeliveryPending, true, true, 1, "canceled tier 0 extra 1 epoch 2 due 12:30 completed 12:00"},
		{"delivered before the endpoint was disabled", webhook.DeliveryDelivered, true, true, 1, "delivered tier 1 extra 1 epoch 2 due 12:30 completed 11:00"},
	} {
		e := f.createEndpoint()
		id := f.newDelivery(e, published, tc.status)
		if tc.reenabled {
			f.setActive(e, false)
			f.setActive(e, true)
		}
		if tc.cancelJob {
			canceled := 0
			if waitsForAttempt(tc.status) {
				canceled = 1
			}
			f.cancelBlock(e, 10, canceled)
		}
		woken = nil
		f.clock.Advance(30 * time.Minute)
		for range tc.retries {
			got, err := f.retry(e, id)
			if err != nil {
				t.Fatalf("%s: %v", tc.name, err)
			}
			want := f.delivery(e, id)
			if server.EnumName(got.GetStatus()) != string(want.Status) || !got.GetNextAttemptAt().AsTime().Equal(f.Now()) || got.GetRequestUrl() != e.URL {
				t.Errorf("%s: RetryDelivery returned the status %s, the next attempt at %s and the URL %s, want %s, %s and %s", tc.name,
					server.EnumName(got.GetStatus()), got.GetNextAttemptAt().AsTime(), got.GetRequestUrl(), want.Status, f.Now(), e.URL)
			}
		}
		if got := f.stateOf(e, id); got != tc.want {
			t.Errorf("%s: after the retries, the delivery is %s, want %s", tc.name, got, tc.want)
		}
		if want := slices.Repeat([]webhook.EndpointKey{e.Key()}, tc.retries); !slices.Equal(woken, want) {
			t.Errorf("%s: the sender was woken for %v, want %v", tc.name, woken, want)
		}
		if line := f.lastAudit(e); !strings.HasPrefix(line, "webhook.retry_delivery - ") || !strings.Contains(line, id.String()) {
			t.Errorf("%s: the last audit record is %s, want webhook.retry_delivery of %s", tc.name, line, id)
		}
		f.deleteEndpoint(e)
		f.clock.Advance(-30 * time.Minute)
	}
}

func TestRetryAndRecover_OfDisabledEndpointAreRefused(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	id := f.newDelivery(e, f.Now(), webhook.DeliveryPending)
	f.setActive(e, false)
	_, err := f.retry(e, id)
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookDisabled)
	_, err = f.service.RecoverDeliveries(f.asOwner(), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: e.ID.String(), Since: timestamppb.New(f.Now().Add(-time.Hour)),
	})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookDisabled)
	if got := f.stateOf(e, id); !strings.Contains(got, "extra 0") {
		t.Errorf("the refused retry changed the delivery to %q, want no additional attempt (extra 0)", got)
	}
	if n := f.CountJobs("recover_deliveries"); n != 0 {
		t.Errorf("the refused recovery inserted %d jobs, want none", n)
	}
}

func TestDeliveries_TotalIsExact(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	const events = affiliate.MaxSearchTotal + 150
	dead := f.publishWithDeadLetters(e, events, time.Second)
	monthAgo, status := f.Now().AddDate(0, 0, -30), webhook.DeliveryDeadLettered
	for _, tc := range []struct {
		filter    webhook.DeliveryFilter
		page      int
		wantRows  int
		wantTotal int64
	}{
		{webhook.DeliveryFilter{}, 1, 100, events},
		{webhook.DeliveryFilter{}, 102, 50, events},
		{webhook.DeliveryFilter{}, 200, 0, events},
		{webhook.DeliveryFilter{Status: &status}, 1, 100, int64(dead)},
	} {
		list, total, err := webhooks.Deliveries(t.Context(), f.DB, f.Scope, e.ID, monthAgo, tc.filter, affiliate.Page{Number: tc.page, Size: 100})
		if err != nil || len(list) != tc.wantRows || total != tc.wantTotal {
			t.Errorf("page %d of the status %s has %d of %d deliveries, error %v, want %d of %d", tc.page, optional(tc.filter.Status), len(list), total, err, tc.wantRows, tc.wantTotal)
		}
	}
}
