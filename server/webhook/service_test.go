package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	"github.com/tributary-hq/tributary/cmd/stores"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhookpg "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// world is a workspace whose endpoints can be on this machine.
type world struct {
	*pgtest.Fixture
	t    *testing.T
	keys *seal.Keys
	// webhooks is for reads by the tests. store is the same store for the service.
	webhooks *webhookpg.Store
	store    webhook.Store
	service  *webhook.Service
	scope    affiliate.Scope
	now      time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, now: time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)}
	w.Fixture = pgtest.Open(t, func() time.Time { return w.now })
	var err error
	if w.keys, err = seal.New("k:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{1}, 32))); err != nil {
		t.Fatal(err)
	}
	w.webhooks = webhookpg.NewStore(w.Store.DB)
	w.store = stores.Webhook(w.webhooks)
	client := webhook.NewClient(webhook.ClientConfig{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(client.Close)
	w.service = webhook.New(webhook.Config{Store: w.store, Seal: w.keys, Client: client, Now: w.Now})
	w.scope = affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}
	return w
}

func (w *world) asMerchant(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: affiliate.NewID[affiliate.User](w.now), Workspace: scope.Workspace,
		Role: affiliate.RoleDeveloper, Mode: scope.Mode,
	})
}

func (w *world) createEndpoint() *affiliatev1.CreatedWebhook {
	w.t.Helper()
	created, err := w.service.CreateWebhook(w.asMerchant(w.scope), &affiliatev1.CreateWebhookRequest{Url: "https://127.0.0.1/", Subscriptions: []string{"*"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return created
}

// addDeliveryOfNewEvent stores a delivery of a new event with the status.
func (w *world) addDeliveryOfNewEvent(to *affiliatev1.CreatedWebhook, at time.Time, status affiliate.DeliveryStatus) affiliate.EventID {
	w.t.Helper()
	event := affiliate.NewID[affiliate.Event](at)
	w.Exec(`
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, status, due_at, created_at, completed_at)
		select $1, $2::uuid, delivery_id($3, $2::uuid), $4::date, $5, $3, 'program.updated', 1, $6::text,
			case when $6::text in ('pending', 'failed') then $7::timestamptz end, $7, case when $6::text not in ('pending', 'failed') then $7::timestamptz end`,
		w.scope.Workspace, to.GetId(), event, at.UTC().Format(time.DateOnly), w.scope.Mode, status, at)
	return event
}

func TestSigningSecret_IsOnlyInTheResponse(t *testing.T) {
	w := newWorld(t)
	created := w.createEndpoint()
	id, _ := affiliate.ParseID[affiliate.Endpoint](created.GetId())
	for _, secret := range []func() string{
		created.GetSigningSecret,
		func() string {
			rotated, err := w.service.RotateWebhookSecret(w.asMerchant(w.scope), &affiliatev1.RotateWebhookSecretRequest{WebhookId: created.GetId()})
			if err != nil {
				t.Fatal(err)
			}
			return rotated.GetSigningSecret()
		},
	} {
		text := secret()
		_, sealed, err := w.webhooks.EndpointSecrets(t.Context(), w.scope, id, w.now)
		if err != nil {
			t.Fatal(err)
		}
		want, err := domain.ParseSecret(text)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(sealed[0], want) {
			t.Error("the secret is stored without encryption")
		}
		if plain, err := w.keys.Open(sealed[0], id.UUID[:]); err != nil || !bytes.Equal(plain, want) {
			t.Errorf("the secret was decrypted as %x, %v", plain, err)
		}
		other := affiliate.NewID[affiliate.Endpoint](w.now)
		if _, err := w.keys.Open(sealed[0], other.UUID[:]); err == nil {
			t.Error("the secret was decrypted with another endpoint's id")
		}
		encoded := strings.TrimPrefix(text, "whsec_")
		if n := w.Count(`select count(*) from audit_log where before::text || after::text like '%' || $1 || '%'`, encoded); n > 0 {
			t.Error("the secret is in the audit log")
		}
	}
}

func TestCheck_ReportsInvalidFields(t *testing.T) {
	w := newWorld(t)
	create := func(url string, subscriptions, events []string) *affiliatev1.CreateWebhookRequest {
		return &affiliatev1.CreateWebhookRequest{Url: url, Subscriptions: subscriptions, Events: events}
	}
	all := []string{"*"}
	recovery := func(since, until time.Duration, statuses ...affiliatev1.DeliveryStatus) *affiliatev1.RecoverDeliveriesRequest {
		req := &affiliatev1.RecoverDeliveriesRequest{Since: timestamppb.New(w.now.Add(-since)), Statuses: statuses}
		if until != 0 {
			req.Until = timestamppb.New(w.now.Add(-until))
		}
		return req
	}
	const day = 24 * time.Hour
	for name, tc := range map[string]struct {
		req  proto.Message
		want []string
	}{
		"valid":                           {create("https://shop.example/", all, nil), nil},
		"http, refused later":             {create("http://shop.example/", all, nil), nil},
		"not a URL":                       {create("shop", all, nil), []string{"url"}},
		"events instead of subscriptions": {create("https://shop.example/", nil, []string{"payout.*"}), nil},
		"events and subscriptions":        {create("https://shop.example/", all, all), []string{"events"}},
		"no subscription":                 {create("https://shop.example/", nil, nil), []string{"subscriptions"}},
		"webhook.ping":                    {create("https://shop.example/", []string{"*", "webhook.ping"}, nil), []string{"subscriptions[1]"}},
		"nothing changed":                 {&affiliatev1.UpdateWebhookRequest{}, nil},
		"disable":                         {&affiliatev1.UpdateWebhookRequest{Active: proto.Bool(false), UpdateMask: mask("active")}, nil},
		"active is absent":                {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("active")}, []string{"active"}},
		"subscriptions are absent":        {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("subscriptions")}, []string{"subscriptions"}},
		"unknown subscription":            {&affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"x"}, UpdateMask: mask("subscriptions")}, []string{"subscriptions[0]"}},
		"paths that cannot change":        {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("url", "webhook_id")}, []string{"update_mask", "update_mask"}},
		"a field without a mask":          {&affiliatev1.UpdateWebhookRequest{Active: proto.Bool(true)}, []string{"update_mask"}},
		"the last 30 days":                {recovery(30*day, 0), nil},
		"30 days by a slow clock":         {recovery(30*day+4*time.Minute, 0), nil},
		"more than 30 days":               {recovery(30*day+6*time.Minute, 0), []string{"since"}},
		"until now by a fast clock":       {recovery(day, -4*time.Minute), nil},
		"until is in the future":          {recovery(day, -6*time.Minute), []string{"until"}},
		"since is now":                    {recovery(0, 0), []string{"since"}},
		"since after until":               {recovery(day, 2*day), []string{"since"}},
		"pending":                         {recovery(day, 0, affiliatev1.DeliveryStatus_DELIVERY_STATUS_PENDING), []string{"statuses[0]"}},
		"unspecified status":              {recovery(day, 0, affiliatev1.DeliveryStatus_DELIVERY_STATUS_CANCELED, 0), []string{"statuses[1]"}},
		"since is absent":                 {&affiliatev1.RecoverDeliveriesRequest{}, nil},
		"invalid timestamp":               {&affiliatev1.RecoverDeliveriesRequest{Since: &timestamppb.Timestamp{Nanos: -1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, v := range w.service.Check(tc.req) {
				fields = append(fields, v.Field)
			}
			if !slices.Equal(fields, tc.want) {
				t.Errorf("violations of %q, want %q", fields, tc.want)
			}
		})
	}
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

// Deliveries of events that are older than 30 days are still in the table. They cannot be
// read, retried or recovered.
func TestDeliveries_OfEventsOlderThan30DaysAreNotFound(t *testing.T) {
	w := newWorld(t)
	created := w.createEndpoint()
	w.addDeliveryOfNewEvent(created, w.now.Add(-30*24*time.Hour-time.Minute), affiliate.DeliveryCanceled)
	event := w.addDeliveryOfNewEvent(created, w.now.Add(-30*24*time.Hour+time.Minute), affiliate.DeliveryDeadLettered)
	w.addDeliveryOfNewEvent(created, w.now.Add(-time.Hour), affiliate.DeliveryCanceled)

	list := func(req *affiliatev1.ListDeliveriesRequest) []*affiliatev1.Delivery {
		t.Helper()
		req.WebhookId = created.GetId()
		res, err := w.service.ListDeliveries(w.asMerchant(w.scope), req)
		if err != nil {
			t.Fatal(err)
		}
		if int(res.GetTotal()) != len(res.GetData()) {
			t.Errorf("total %d, but %d deliveries", res.GetTotal(), len(res.GetData()))
		}
		return res.GetData()
	}
	if got := list(&affiliatev1.ListDeliveriesRequest{}); len(got) != 2 {
		t.Fatalf("%v", got)
	}
	canceled := affiliatev1.DeliveryStatus_DELIVERY_STATUS_CANCELED
	if got := list(&affiliatev1.ListDeliveriesRequest{Status: &canceled}); len(got) != 1 || got[0].GetStatus() != canceled {
		t.Errorf("canceled: %v", got)
	}
	wire := affiliate.Event{ID: event}.WireID()
	if got := list(&affiliatev1.ListDeliveriesRequest{EventId: &wire}); len(got) != 1 || got[0].GetEventId() != wire {
		t.Errorf("of the event: %v", got)
	}
	var old string
	for _, id := range w.Texts(`select id::text from webhook_deliveries order by id`) {
		old = id
		break
	}
	_, err := w.service.GetDelivery(w.asMerchant(w.scope), &affiliatev1.GetDeliveryRequest{WebhookId: created.GetId(), DeliveryId: old})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	_, err = w.service.RetryDelivery(w.asMerchant(w.scope), &affiliatev1.RetryDeliveryRequest{WebhookId: created.GetId(), DeliveryId: old})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	queued, err := w.service.RecoverDeliveries(w.asMerchant(w.scope), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: created.GetId(), Since: timestamppb.New(w.now.Add(-30*24*time.Hour - 2*time.Minute)),
	})
	if err != nil || queued.GetQueued() != 2 {
		t.Errorf("%v, %v", queued, err)
	}
}

func TestEndpoints_OfOtherScopesAreNotFound(t *testing.T) {
	w := newWorld(t)
	id := w.createEndpoint().GetId()
	for name, tc := range map[string]struct {
		scope affiliate.Scope
		id    string
	}{
		"another workspace": {affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}, id},
		"the other mode":    {affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeTest}, id},
		"unknown endpoint":  {w.scope, affiliate.NewID[affiliate.Endpoint](w.now).String()},
		"not a UUID":        {w.scope, "hook"},
	} {
		ctx, s := w.asMerchant(tc.scope), w.service
		errs := map[string]error{}
		_, errs["get"] = s.GetWebhook(ctx, &affiliatev1.GetWebhookRequest{WebhookId: tc.id})
		_, errs["update"] = s.UpdateWebhook(ctx, &affiliatev1.UpdateWebhookRequest{WebhookId: tc.id, Active: proto.Bool(false), UpdateMask: mask("active")})
		_, errs["delete"] = s.DeleteWebhook(ctx, &affiliatev1.DeleteWebhookRequest{WebhookId: tc.id})
		_, errs["rotate"] = s.RotateWebhookSecret(ctx, &affiliatev1.RotateWebhookSecretRequest{WebhookId: tc.id})
		_, errs["ping"] = s.TestWebhook(ctx, &affiliatev1.TestWebhookRequest{WebhookId: tc.id})
		_, errs["deliveries"] = s.ListDeliveries(ctx, &affiliatev1.ListDeliveriesRequest{WebhookId: tc.id})
		_, errs["delivery"] = s.GetDelivery(ctx, &affiliatev1.GetDeliveryRequest{WebhookId: tc.id, DeliveryId: id})
		_, errs["retry"] = s.RetryDelivery(ctx, &affiliatev1.RetryDeliveryRequest{WebhookId: tc.id, DeliveryId: id})
		_, errs["recover"] = s.RecoverDeliveries(ctx, &affiliatev1.RecoverDeliveriesRequest{WebhookId: tc.id, Since: timestamppb.New(w.now.Add(-time.Hour))})
		for call, err := range errs {
			if pgtest.ReasonOf(t, err) != affiliate.ReasonWebhookNotFound {
				t.Errorf("%s: %s: %v", name, call, err)
			}
		}
	}
	if w.Count(`select count(*) from webhook_endpoints where active and version = 1 and deleted_at is null`) != 1 || w.Count(`select count(*) from audit_log`) != 1 {
		t.Error("something changed")
	}
}

// The workers of this package run the jobs that the service inserts.
func TestWorkers_CancelAndRecover(t *testing.T) {
	w := newWorld(t)
	created := w.createEndpoint()
	for range 3 {
		w.addDeliveryOfNewEvent(created, w.now, affiliate.DeliveryPending)
	}
	workers := river.NewWorkers()
	webhook.AddWorkers(workers, w.store, w.Now)
	w.StartWorkers(&river.Config{
		Queues:  map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: 2}},
		Workers: workers,
	})
	await := func(status affiliate.DeliveryStatus) {
		t.Helper()
		const count = `select count(*) from webhook_deliveries where status = $1 and (due_at is null) = (completed_at is not null)`
		for deadline := time.Now().Add(30 * time.Second); w.Count(count, status) < 3; time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the deliveries are not %s after 30 s: %v", status, w.Texts(`select status from webhook_deliveries`))
			}
		}
	}
	setActive := func(active bool) {
		t.Helper()
		_, err := w.service.UpdateWebhook(w.asMerchant(w.scope), &affiliatev1.UpdateWebhookRequest{WebhookId: created.GetId(), Active: &active, UpdateMask: mask("active")})
		if err != nil {
			t.Fatal(err)
		}
	}
	setActive(false)
	await(affiliate.DeliveryCanceled)
	setActive(true)
	queued, err := w.service.RecoverDeliveries(w.asMerchant(w.scope), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: created.GetId(), Since: timestamppb.New(w.now.Add(-time.Hour)), Until: timestamppb.New(w.now.Add(time.Minute)),
	})
	if err != nil || queued.GetQueued() != 3 {
		t.Errorf("%v, %v", queued, err)
	}
	await(affiliate.DeliveryPending)
}
