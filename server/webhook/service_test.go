package webhook_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	webhookservice "github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

func TestSigningSecret_IsOnlyInTheResponse(t *testing.T) {
	f := newFixture(t)
	check := func(call string, response *affiliatev1.CreatedWebhook) {
		t.Helper()
		id := endpointID(t, response.GetId())
		_, sealed, err := webhooks.EndpointSecrets(t.Context(), f.DB, f.Scope, id, f.Now())
		if err != nil {
			t.Fatal(err)
		}
		want, err := domain.ParseSecret(response.GetSigningSecret())
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(sealed[0], want) {
			t.Errorf("%s stored the secret without encryption", call)
		}
		if plain, err := f.keys.Open(sealed[0], id.UUID[:]); err != nil || !bytes.Equal(plain, want) {
			t.Errorf("%s stored a secret that decrypts to %x, error %v, want %x", call, plain, err, []byte(want))
		}
		other := affiliate.NewID[affiliate.EndpointID](f.Now())
		if _, err := f.keys.Open(sealed[0], other.UUID[:]); err == nil {
			t.Errorf("%s stored a secret that can be decrypted with the id of another endpoint", call)
		}
		encoded := strings.TrimPrefix(response.GetSigningSecret(), "whsec_")
		if n := f.Count(`select count(*) from audit_log where before::text || after::text like '%' || $1 || '%'`, encoded); n > 0 {
			t.Errorf("%s wrote the secret to %d audit records, want none", call, n)
		}
	}
	created, err := f.createWebhook()
	if err != nil {
		t.Fatal(err)
	}
	check("CreateWebhook", created)
	check("RotateWebhookSecret", f.rotateSecret(endpointID(t, created.GetId()), false))
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	f := newFixture(t)
	create := func(url string, subscriptions, events []string) *affiliatev1.CreateWebhookRequest {
		return &affiliatev1.CreateWebhookRequest{Url: url, Subscriptions: subscriptions, Events: events}
	}
	all := []string{"*"}
	// recovery returns a request whose since and until are given as times before now. If
	// untilAgo is 0, the request has no until.
	recovery := func(sinceAgo, untilAgo time.Duration, statuses ...affiliatev1.DeliveryStatus) *affiliatev1.RecoverDeliveriesRequest {
		req := &affiliatev1.RecoverDeliveriesRequest{Since: timestamppb.New(f.Now().Add(-sinceAgo)), Statuses: statuses}
		if untilAgo != 0 {
			req.Until = timestamppb.New(f.Now().Add(-untilAgo))
		}
		return req
	}
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		req        proto.Message
		wantFields []string
	}{
		"valid":                                       {create("https://shop.example/", all, nil), nil},
		"http, which only CreateWebhook refuses":      {create("http://shop.example/", all, nil), nil},
		"not a URL":                                   {create("shop", all, nil), []string{"url"}},
		"events instead of subscriptions":             {create("https://shop.example/", nil, []string{"payout.*"}), nil},
		"events and subscriptions":                    {create("https://shop.example/", all, all), []string{"events"}},
		"no subscription":                             {create("https://shop.example/", nil, nil), []string{"subscriptions"}},
		"subscription to webhook.ping":                {create("https://shop.example/", []string{"*", "webhook.ping"}, nil), []string{"subscriptions[1]"}},
		"update of nothing":                           {&affiliatev1.UpdateWebhookRequest{}, nil},
		"update of active":                            {&affiliatev1.UpdateWebhookRequest{Active: new(false), UpdateMask: mask("active")}, nil},
		"active is masked but absent":                 {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("active")}, []string{"active"}},
		"subscriptions are masked but absent":         {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("subscriptions")}, []string{"subscriptions"}},
		"unknown subscription":                        {&affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"x"}, UpdateMask: mask("subscriptions")}, []string{"subscriptions[0]"}},
		"fields that cannot change":                   {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("url", "webhook_id")}, []string{"update_mask", "update_mask"}},
		"a field without a mask":                      {&affiliatev1.UpdateWebhookRequest{Active: new(true)}, []string{"update_mask"}},
		"the last 30 days":                            {recovery(30*day, 0), nil},
		"30 days on a clock that is 4 minutes slow":   {recovery(30*day+4*time.Minute, 0), nil},
		"more than 30 days":                           {recovery(30*day+6*time.Minute, 0), []string{"since"}},
		"until now on a clock that is 4 minutes fast": {recovery(day, -4*time.Minute), nil},
		"until is in the future":                      {recovery(day, -6*time.Minute), []string{"until"}},
		"since is now":                                {recovery(0, 0), []string{"since"}},
		"since after until":                           {recovery(day, 2*day), []string{"since"}},
		"recovery of pending deliveries":              {recovery(day, 0, affiliatev1.DeliveryStatus_DELIVERY_STATUS_PENDING), []string{"statuses[0]"}},
		"recovery of an unspecified status":           {recovery(day, 0, affiliatev1.DeliveryStatus_DELIVERY_STATUS_CANCELED, 0), []string{"statuses[1]"}},
		"since is absent":                             {&affiliatev1.RecoverDeliveriesRequest{}, nil},
		"invalid timestamp":                           {&affiliatev1.RecoverDeliveriesRequest{Since: &timestamppb.Timestamp{Nanos: -1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, v := range f.service.Check(tc.req) {
				fields = append(fields, v.Field)
			}
			if !slices.Equal(fields, tc.wantFields) {
				t.Errorf("Check returned violations of the fields %q, want %q", fields, tc.wantFields)
			}
		})
	}
}

// Deliveries of events that are older than 30 days are still in the table, but they are
// neither listed nor recovered. TestDelivery_OfOtherEndpointOrTooOldIsNotFound tests the
// calls for a single delivery.
func TestDeliveries_OfEventsOlderThan30DaysAreNotListed(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	monthAgo := f.Now().Add(-30 * 24 * time.Hour)
	f.newDelivery(e, monthAgo.Add(-time.Minute), domain.DeliveryCanceled)
	event := publish(f.Shop, monthAgo.Add(time.Minute))[0]
	oldest := f.deliveryOf(e, event).ID
	f.setStatus(e, domain.DeliveryDeadLettered, event.At, oldest)
	newest := f.newDelivery(e, f.Now().Add(-time.Hour), domain.DeliveryCanceled)
	for name, tc := range map[string]struct {
		req  *affiliatev1.ListDeliveriesRequest
		want []affiliate.DeliveryID
	}{
		"all":             {&affiliatev1.ListDeliveriesRequest{}, []affiliate.DeliveryID{newest, oldest}},
		"of a status":     {&affiliatev1.ListDeliveriesRequest{Status: new(affiliatev1.DeliveryStatus_DELIVERY_STATUS_CANCELED)}, []affiliate.DeliveryID{newest}},
		"of a type":       {&affiliatev1.ListDeliveriesRequest{EventType: new("payout.paid")}, []affiliate.DeliveryID{newest, oldest}},
		"of another type": {&affiliatev1.ListDeliveriesRequest{EventType: new("commission.created")}, nil},
		"since":           {&affiliatev1.ListDeliveriesRequest{DateFrom: new(affiliate.FormatTime(f.Now().Add(-2 * time.Hour)))}, []affiliate.DeliveryID{newest}},
		"until":           {&affiliatev1.ListDeliveriesRequest{DateTo: new(affiliate.FormatTime(f.Now().Add(-2 * time.Hour)))}, []affiliate.DeliveryID{oldest}},
		"long ago":        {&affiliatev1.ListDeliveriesRequest{DateFrom: new("2020-01-01"), DateTo: new("2020-02-01")}, nil},
		"of an event":     {&affiliatev1.ListDeliveriesRequest{EventId: new(event.WireID())}, []affiliate.DeliveryID{oldest}},
	} {
		tc.req.WebhookId = e.ID.String()
		list, err := f.service.ListDeliveries(f.asOwner(), tc.req)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		var got []string
		for _, d := range list.GetData() {
			got = append(got, d.GetId())
		}
		if fmt.Sprint(got) != fmt.Sprint(tc.want) || list.GetTotal() != int64(len(tc.want)) {
			t.Errorf("%s: ListDeliveries returned %v of %d, want %v of %d", name, got, list.GetTotal(), tc.want, len(tc.want))
		}
	}
	recovery, err := f.service.RecoverDeliveries(f.asOwner(), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: e.ID.String(), Since: timestamppb.New(monthAgo.Add(-2 * time.Minute)),
	})
	if err != nil || recovery.GetQueued() != 2 {
		t.Errorf("RecoverDeliveries returned %v, error %v, want 2 queued deliveries", recovery, err)
	}
}

func TestEndpoints_OfOtherScopesAreNotFound(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	delivery := f.newDelivery(e, f.Now(), domain.DeliveryPending)
	check := func(name string, caller *fixture, id string) {
		t.Helper()
		ctx, s := caller.asOwner(), f.service
		errs := map[string]error{}
		_, errs["GetWebhook"] = s.GetWebhook(ctx, &affiliatev1.GetWebhookRequest{WebhookId: id})
		_, errs["UpdateWebhook"] = s.UpdateWebhook(ctx, &affiliatev1.UpdateWebhookRequest{WebhookId: id, Active: new(false), UpdateMask: mask("active")})
		_, errs["DeleteWebhook"] = s.DeleteWebhook(ctx, &affiliatev1.DeleteWebhookRequest{WebhookId: id})
		_, errs["RotateWebhookSecret"] = s.RotateWebhookSecret(ctx, &affiliatev1.RotateWebhookSecretRequest{WebhookId: id})
		_, errs["TestWebhook"] = s.TestWebhook(ctx, &affiliatev1.TestWebhookRequest{WebhookId: id})
		_, errs["ListDeliveries"] = s.ListDeliveries(ctx, &affiliatev1.ListDeliveriesRequest{WebhookId: id})
		_, errs["GetDelivery"] = s.GetDelivery(ctx, &affiliatev1.GetDeliveryRequest{WebhookId: id, DeliveryId: delivery.String()})
		_, errs["RetryDelivery"] = s.RetryDelivery(ctx, &affiliatev1.RetryDeliveryRequest{WebhookId: id, DeliveryId: delivery.String()})
		_, errs["RecoverDeliveries"] = s.RecoverDeliveries(ctx, &affiliatev1.RecoverDeliveriesRequest{WebhookId: id, Since: timestamppb.New(f.Now().Add(-time.Hour))})
		for call, err := range errs {
			if reason := pgtest.ReasonOf(t, err); reason != affiliate.ReasonWebhookNotFound {
				t.Errorf("%s: %s returned the error %q, want %s", name, call, reason, affiliate.ReasonWebhookNotFound)
			}
		}
	}
	for name, other := range f.otherShops() {
		check(name, other, e.ID.String())
	}
	check("unknown endpoint", f, affiliate.NewID[affiliate.EndpointID](f.Now()).String())
	check("not a UUID", f, "hook")
	if after := f.endpoint(e.ID); !after.Active || after.Version != 1 {
		t.Errorf("the endpoint was changed: active %v, version %d, want true and 1", after.Active, after.Version)
	}
	if state, want := f.stateOf(e, delivery), "pending tier 0 extra 0 epoch 1 due 12:00 completed -"; state != want {
		t.Errorf("the delivery was changed: %s, want %s", state, want)
	}
	if n := f.Count(`select count(*) from audit_log`); n != 1 {
		t.Errorf("the audit log has %d records, want only the record of the creation", n)
	}
}

// The workers of this package run the jobs that the service inserts.
func TestWorkers_CancelAndRecover(t *testing.T) {
	f := newFixture(t)
	e := f.createEndpoint()
	publish(f.Shop, f.Now(), f.Now(), f.Now())
	workers := river.NewWorkers()
	webhookservice.AddWorkers(workers, f.DB, f.Now)
	f.StartWorkers(&river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers: workers,
	})
	await := func(status domain.DeliveryStatus) {
		t.Helper()
		pgtest.Eventually(t, fmt.Sprintf("three deliveries are %s", status), func() bool {
			return f.Count(`select count(*) from webhook_deliveries where status = $1 and (due_at is null) = (completed_at is not null)`, status) == 3
		})
	}
	f.setActive(e, false)
	await(domain.DeliveryCanceled)
	f.setActive(e, true)
	recovery, err := f.service.RecoverDeliveries(f.asOwner(), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: e.ID.String(), Since: timestamppb.New(f.Now().Add(-time.Hour)), Until: timestamppb.New(f.Now().Add(time.Minute)),
	})
	if err != nil || recovery.GetQueued() != 3 {
		t.Errorf("RecoverDeliveries returned %v, error %v, want 3 queued deliveries", recovery, err)
	}
	await(domain.DeliveryPending)
}
