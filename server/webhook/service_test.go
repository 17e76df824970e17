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

// world is a workspace whose endpoints may be on this machine.
type world struct {
	*pgtest.Fixture
	t    *testing.T
	keys *seal.Keys
	// webhooks reads the tables, store is what the service gets.
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

func (w *world) as(scope affiliate.Scope) context.Context {
	return server.WithPrincipal(w.t.Context(), server.Principal{
		Kind: server.MerchantToken, User: affiliate.NewID[affiliate.User](w.now), Workspace: scope.Workspace,
		Role: affiliate.RoleDeveloper, Mode: scope.Mode,
	})
}

func (w *world) created() *affiliatev1.CreatedWebhook {
	w.t.Helper()
	made, err := w.service.CreateWebhook(w.as(w.scope), &affiliatev1.CreateWebhookRequest{Url: "https://127.0.0.1/", Subscriptions: []string{"*"}})
	if err != nil {
		w.t.Fatal(err)
	}
	return made
}

// deliver makes a delivery of a new event, with a change to its row.
func (w *world) deliver(to *affiliatev1.CreatedWebhook, at time.Time, status affiliate.DeliveryStatus) affiliate.EventID {
	w.t.Helper()
	event := affiliate.NewID[affiliate.Event](at)
	w.Exec(`
		insert into webhook_deliveries (workspace_id, endpoint_id, id, day, mode, event_id, event_type, epoch, status, due_at, created_at, completed_at)
		select $1, $2::uuid, delivery_id($3, $2::uuid), $4::date, $5, $3, 'program.updated', 1, $6::text,
			case when $6::text in ('pending', 'failed') then $7::timestamptz end, $7, case when $6::text not in ('pending', 'failed') then $7::timestamptz end`,
		w.scope.Workspace, to.GetId(), event, at.UTC().Format(time.DateOnly), w.scope.Mode, status, at)
	return event
}

func TestOnlyTheAnswerHasASecret(t *testing.T) {
	w := newWorld(t)
	made := w.created()
	id, _ := affiliate.ParseID[affiliate.Endpoint](made.GetId())
	for _, secret := range []func() string{
		made.GetSigningSecret,
		func() string {
			rotated, err := w.service.RotateWebhookSecret(w.as(w.scope), &affiliatev1.RotateWebhookSecretRequest{WebhookId: made.GetId()})
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
			t.Error("a secret is kept as it is")
		}
		if plain, err := w.keys.Open(sealed[0], id.UUID[:]); err != nil || !bytes.Equal(plain, want) {
			t.Errorf("it opens as %x, %v", plain, err)
		}
		other := affiliate.NewID[affiliate.Endpoint](w.now)
		if _, err := w.keys.Open(sealed[0], other.UUID[:]); err == nil {
			t.Error("it opens for another endpoint")
		}
		encoded := strings.TrimPrefix(text, "whsec_")
		if n := w.Count(`select count(*) from audit_log where before::text || after::text like '%' || $1 || '%'`, encoded); n > 0 {
			t.Error("it is in the audit log")
		}
	}
}

func TestCheck(t *testing.T) {
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
		"a URL":                        {create("https://shop.example/", all, nil), nil},
		"plain http, for later":        {create("http://shop.example/", all, nil), nil},
		"no URL":                       {create("shop", all, nil), []string{"url"}},
		"the other name":               {create("https://shop.example/", nil, []string{"payout.*"}), nil},
		"both names":                   {create("https://shop.example/", all, all), []string{"events"}},
		"no subscription":              {create("https://shop.example/", nil, nil), []string{"subscriptions"}},
		"a ping":                       {create("https://shop.example/", []string{"*", "webhook.ping"}, nil), []string{"subscriptions[1]"}},
		"nothing changed":              {&affiliatev1.UpdateWebhookRequest{}, nil},
		"off":                          {&affiliatev1.UpdateWebhookRequest{Active: proto.Bool(false), UpdateMask: mask("active")}, nil},
		"neither on nor off":           {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("active")}, []string{"active"}},
		"no subscription any more":     {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("subscriptions")}, []string{"subscriptions"}},
		"an unknown one":               {&affiliatev1.UpdateWebhookRequest{Subscriptions: []string{"x"}, UpdateMask: mask("subscriptions")}, []string{"subscriptions[0]"}},
		"another URL":                  {&affiliatev1.UpdateWebhookRequest{UpdateMask: mask("url", "webhook_id")}, []string{"update_mask", "update_mask"}},
		"a change that nobody names":   {&affiliatev1.UpdateWebhookRequest{Active: proto.Bool(true)}, []string{"update_mask"}},
		"the last 30 days":             {recovery(30*day, 0), nil},
		"by a clock that is behind":    {recovery(30*day+4*time.Minute, 0), nil},
		"longer ago":                   {recovery(30*day+6*time.Minute, 0), []string{"since"}},
		"until now":                    {recovery(day, -4*time.Minute), nil},
		"until later":                  {recovery(day, -6*time.Minute), []string{"until"}},
		"from now on":                  {recovery(0, 0), []string{"since"}},
		"backwards":                    {recovery(day, 2*day), []string{"since"}},
		"what is sent anyway":          {recovery(day, 0, affiliatev1.DeliveryStatus_DELIVERY_STATUS_PENDING), []string{"statuses[0]"}},
		"a status without a name":      {recovery(day, 0, affiliatev1.DeliveryStatus_DELIVERY_STATUS_CANCELED, 0), []string{"statuses[1]"}},
		"what the annotations say":     {&affiliatev1.RecoverDeliveriesRequest{}, nil},
		"what anybody sees to be none": {&affiliatev1.RecoverDeliveriesRequest{Since: &timestamppb.Timestamp{Nanos: -1}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var fields []string
			for _, v := range w.service.Check(tc.req) {
				fields = append(fields, v.Field)
			}
			if !slices.Equal(fields, tc.want) {
				t.Errorf("faulty are %q, want %q", fields, tc.want)
			}
		})
	}
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

// Nothing older than 30 days is shown, tried again or recovered, though it is there.
func TestDeliveriesOf30DaysAreShown(t *testing.T) {
	w := newWorld(t)
	made := w.created()
	w.deliver(made, w.now.Add(-30*24*time.Hour-time.Minute), affiliate.DeliveryCanceled)
	event := w.deliver(made, w.now.Add(-30*24*time.Hour+time.Minute), affiliate.DeliveryDeadLettered)
	w.deliver(made, w.now.Add(-time.Hour), affiliate.DeliveryCanceled)

	list := func(req *affiliatev1.ListDeliveriesRequest) []*affiliatev1.Delivery {
		t.Helper()
		req.WebhookId = made.GetId()
		res, err := w.service.ListDeliveries(w.as(w.scope), req)
		if err != nil {
			t.Fatal(err)
		}
		if int(res.GetTotal()) != len(res.GetData()) {
			t.Errorf("a total of %d of %d", res.GetTotal(), len(res.GetData()))
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
	_, err := w.service.GetDelivery(w.as(w.scope), &affiliatev1.GetDeliveryRequest{WebhookId: made.GetId(), DeliveryId: old})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	_, err = w.service.RetryDelivery(w.as(w.scope), &affiliatev1.RetryDeliveryRequest{WebhookId: made.GetId(), DeliveryId: old})
	pgtest.RequireRefusal(t, err, affiliate.ReasonWebhookNotFound)
	queued, err := w.service.RecoverDeliveries(w.as(w.scope), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: made.GetId(), Since: timestamppb.New(w.now.Add(-30*24*time.Hour - 2*time.Minute)),
	})
	if err != nil || queued.GetQueued() != 2 {
		t.Errorf("%v, %v", queued, err)
	}
}

// What is no id of the caller's own world is not there.
func TestForeignEndpointsAreNotFound(t *testing.T) {
	w := newWorld(t)
	id := w.created().GetId()
	for name, tc := range map[string]struct {
		scope affiliate.Scope
		id    string
	}{
		"another workspace": {affiliate.Scope{Workspace: w.NewWorkspace(), Mode: affiliate.ModeLive}, id},
		"the other mode":    {affiliate.Scope{Workspace: w.scope.Workspace, Mode: affiliate.ModeTest}, id},
		"no such endpoint":  {w.scope, affiliate.NewID[affiliate.Endpoint](w.now).String()},
		"no id":             {w.scope, "hook"},
	} {
		ctx, s := w.as(tc.scope), w.service
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

// What the service leaves to jobs is done by this package's workers.
func TestTheQueueCancelsAndRecovers(t *testing.T) {
	w := newWorld(t)
	made := w.created()
	for range 3 {
		w.deliver(made, w.now, affiliate.DeliveryPending)
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
				t.Fatalf("not %s in 30 s: %v", status, w.Texts(`select status from webhook_deliveries`))
			}
		}
	}
	turn := func(active bool) {
		t.Helper()
		_, err := w.service.UpdateWebhook(w.as(w.scope), &affiliatev1.UpdateWebhookRequest{WebhookId: made.GetId(), Active: &active, UpdateMask: mask("active")})
		if err != nil {
			t.Fatal(err)
		}
	}
	turn(false)
	await(affiliate.DeliveryCanceled)
	turn(true)
	queued, err := w.service.RecoverDeliveries(w.as(w.scope), &affiliatev1.RecoverDeliveriesRequest{
		WebhookId: made.GetId(), Since: timestamppb.New(w.now.Add(-time.Hour)), Until: timestamppb.New(w.now.Add(time.Minute)),
	})
	if err != nil || queued.GetQueued() != 3 {
		t.Errorf("%v, %v", queued, err)
	}
	await(affiliate.DeliveryPending)
}
