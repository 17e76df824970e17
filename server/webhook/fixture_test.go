package webhook_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	domain "github.com/tributary-hq/tributary/affiliate/webhook"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/seal"
	"github.com/tributary-hq/tributary/server/servertest"
	webhookservice "github.com/tributary-hq/tributary/server/webhook"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	webhooks "github.com/tributary-hq/tributary/storage/postgres/webhook"
)

// endpointURL is the URL of the endpoints that the fixture creates.
const endpointURL = "https://127.0.0.1:8443/in?token=t"

// fixture is a shop with the service under test. The service allows endpoints on this
// machine.
type fixture struct {
	*pgtest.Shop
	service *webhookservice.Service
	clock   *pgtest.Clock
	keys    *seal.Keys
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	clock := pgtest.NewClock(time.Date(2026, 3, 18, 12, 0, 0, 0, time.UTC))
	shop := pgtest.Open(t, clock.Now).NewShop(affiliate.ModeLive)
	f := &fixture{Shop: shop, clock: clock, keys: newKeys(t, "k", 1)}
	client := webhookservice.NewClient(webhookservice.ClientConfig{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(client.Close)
	f.service = webhookservice.New(webhookservice.Config{DB: f.DB, Seal: f.keys, Client: client, Now: clock.Now})
	return f
}

// newKeys returns a set of one key. The key has the given name and consists of 32 bytes
// with the value b.
func newKeys(t testing.TB, name string, b byte) *seal.Keys {
	t.Helper()
	keys, err := seal.New(name + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{b}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// otherShops returns a fixture of the shop in the other mode and a fixture of a shop in
// another workspace, by name. The endpoints of f do not belong to these shops.
func (f *fixture) otherShops() map[string]*fixture {
	f.Helper()
	return map[string]*fixture{
		"the other mode":    {f.InOtherMode(), f.service, f.clock, f.keys},
		"another workspace": {f.NewShop(f.Scope.Mode), f.service, f.clock, f.keys},
	}
}

// asOwner returns the context of a call by the owner of the shop.
func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f, f.Scope, f.Owner, affiliate.RoleOwner)
}

// createWebhook creates an endpoint that receives all events. The functions in change
// modify the request before it is sent.
func (f *fixture) createWebhook(change ...func(*affiliatev1.CreateWebhookRequest)) (*affiliatev1.CreatedWebhook, error) {
	req := &affiliatev1.CreateWebhookRequest{Url: endpointURL, Subscriptions: []string{"*"}}
	for _, c := range change {
		c(req)
	}
	return f.service.CreateWebhook(f.asOwner(), req)
}

// createEndpoint calls createWebhook and returns the stored endpoint. An error ends the
// test.
func (f *fixture) createEndpoint(change ...func(*affiliatev1.CreateWebhookRequest)) domain.Endpoint {
	f.Helper()
	created, err := f.createWebhook(change...)
	if err != nil {
		f.Fatal(err)
	}
	return f.endpoint(endpointID(f, created.GetId()))
}

// endpointID parses the id of an endpoint in a response.
func endpointID(t testing.TB, text string) affiliate.EndpointID {
	t.Helper()
	id, ok := affiliate.ParseID[affiliate.EndpointID](text)
	if !ok {
		t.Fatalf("%q is not the id of an endpoint", text)
	}
	return id
}

func (f *fixture) endpoint(id affiliate.EndpointID) domain.Endpoint {
	f.Helper()
	e, err := webhooks.Endpoint(f.Context(), f.DB, f.Scope, id)
	if err != nil {
		f.Fatal(err)
	}
	return e
}

func (f *fixture) update(e domain.Endpoint, req *affiliatev1.UpdateWebhookRequest, paths ...string) domain.Endpoint {
	f.Helper()
	req.WebhookId, req.UpdateMask = e.ID.String(), mask(paths...)
	if _, err := f.service.UpdateWebhook(f.asOwner(), req); err != nil {
		f.Fatal(err)
	}
	return f.endpoint(e.ID)
}

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

func (f *fixture) setActive(e domain.Endpoint, active bool) domain.Endpoint {
	f.Helper()
	return f.update(e, &affiliatev1.UpdateWebhookRequest{Active: new(active)}, "active")
}

func (f *fixture) deleteEndpoint(e domain.Endpoint) {
	f.Helper()
	if _, err := f.service.DeleteWebhook(f.asOwner(), &affiliatev1.DeleteWebhookRequest{WebhookId: e.ID.String()}); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) rotateSecret(id affiliate.EndpointID, expireImmediately bool) *affiliatev1.CreatedWebhook {
	f.Helper()
	rotated, err := f.service.RotateWebhookSecret(f.asOwner(), &affiliatev1.RotateWebhookSecretRequest{
		WebhookId: id.String(), ExpireImmediately: expireImmediately,
	})
	if err != nil {
		f.Fatal(err)
	}
	return rotated
}

// secrets returns the decrypted secrets with which requests to an endpoint are signed at
// the given time, newest first.
func (f *fixture) secrets(id affiliate.EndpointID, at time.Time) []string {
	f.Helper()
	_, sealed, err := webhooks.EndpointSecrets(f.Context(), f.DB, f.Scope, id, at)
	if err != nil {
		f.Fatal(err)
	}
	texts := make([]string, len(sealed))
	for i, s := range sealed {
		plain, err := f.keys.Open(s, id.UUID[:])
		if err != nil {
			f.Fatal(err)
		}
		texts[i] = domain.Secret(plain).Text()
	}
	return texts
}

// changeEndpoint stores a change of an endpoint. Tests use it for changes that users
// cannot make.
func (f *fixture) changeEndpoint(id affiliate.EndpointID, change func(domain.Endpoint) domain.Endpoint) {
	f.Helper()
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) error {
		e, err := webhooks.LockEndpoint(f.Context(), tx, f.Scope, id)
		if err != nil {
			return err
		}
		return webhooks.UpdateEndpoint(f.Context(), tx, change(e))
	})
	if err != nil {
		f.Fatal(err)
	}
}

// lastAudit returns the newest audit record of an endpoint as text: the action, and the
// fields before and after the change.
func (f *fixture) lastAudit(e domain.Endpoint) string {
	f.Helper()
	texts := f.Texts(`
		select action || ' ' || coalesce(before::text, '-') || ' ' || coalesce(after::text, '-') from audit_log
		where resource_type = 'webhook' and resource_id = $1 and mode = $2 and workspace_id = $3 order by at desc, ctid desc limit 1`,
		e.ID, e.Mode, e.Workspace)
	if len(texts) == 0 {
		f.Fatalf("the endpoint %s has no audit record", e.ID)
	}
	return texts[0]
}

// publish stores events that occurred at the given times, with deliveries to all active
// endpoints of the shop.
func publish(shop *pgtest.Shop, times ...time.Time) []affiliate.Event {
	shop.Helper()
	events := make([]affiliate.Event, len(times))
	for i, at := range times {
		events[i] = affiliate.NewEvent(shop.Scope, affiliate.EventPayoutPaid, at, struct{}{}, nil)
	}
	err := shop.DB.InTx(shop.Context(), func(tx *postgres.Tx) error { return tx.Publish(shop.Context(), events...) })
	if err != nil {
		shop.Fatal(err)
	}
	return events
}

// newDelivery publishes an event that occurred at the given time, and returns its
// delivery to e. The delivery got its status at the same time. Other active endpoints of
// the shop get a pending delivery.
func (f *fixture) newDelivery(e domain.Endpoint, at time.Time, status domain.DeliveryStatus) affiliate.DeliveryID {
	f.Helper()
	d := f.deliveryOf(e, publish(f.Shop, at)[0])
	if status != domain.DeliveryPending {
		f.setStatus(e, status, at, d.ID)
	}
	return d.ID
}

// deliveryOf returns the delivery of an event to an endpoint.
func (f *fixture) deliveryOf(e domain.Endpoint, event affiliate.Event) domain.Delivery {
	f.Helper()
	list, _, err := webhooks.Deliveries(f.Context(), f.DB, f.Scope, e.ID, event.At, domain.DeliveryFilter{Event: &event.ID}, affiliate.Page{Number: 1, Size: 1})
	if err != nil || len(list) != 1 {
		f.Fatalf("the event has %d deliveries to the endpoint, error %v, want 1 delivery", len(list), err)
	}
	return list[0]
}

// setStatus records one attempt at the given time for each of the deliveries and gives
// them the status. If the status is delivered, the receiver responded with HTTP status
// 200, otherwise with 500. The next attempt of a failed delivery is ten hours later.
func (f *fixture) setStatus(e domain.Endpoint, status domain.DeliveryStatus, at time.Time, ids ...affiliate.DeliveryID) {
	f.Helper()
	outcome := domain.ResponseOutcome(500, 0)
	if status == domain.DeliveryDelivered {
		outcome = domain.ResponseOutcome(200, 0)
	}
	err := f.DB.InSendingTx(f.Context(), func(tx *postgres.Tx) error {
		changes := make([]domain.DeliveryChange, len(ids))
		for i, id := range ids {
			d, err := webhooks.LockDelivery(f.Context(), tx, f.Scope, e.ID, id)
			if err != nil {
				return err
			}
			changes[i] = domain.DeliveryChange{
				Result: domain.AttemptResult{
					Key: e.Key(), Delivery: domain.DueDelivery{ID: id, Attempts: d.Attempts}, Outcome: outcome, Started: at, Ended: at.Add(12 * time.Millisecond),
				},
				Before: d.State, After: domain.State{Status: status, ScheduledAttempts: 1},
			}
			if status == domain.DeliveryFailed {
				changes[i].DueAt = new(at.Add(10 * time.Hour))
			} else {
				changes[i].CompletedAt = &at
			}
		}
		applied, err := webhooks.ApplyOutcomes(f.Context(), tx, changes)
		if err == nil && len(applied) != len(ids) {
			err = fmt.Errorf("%d of %d attempts were stored", len(applied), len(ids))
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
}

// stateOf returns the stored state of a delivery as text. tier is the number of
// attempts that were made in the current schedule. extra is the number of attempts that
// were requested with RetryDelivery and are still to be made.
func (f *fixture) stateOf(e domain.Endpoint, id affiliate.DeliveryID) string {
	f.Helper()
	var d domain.LockedDelivery
	err := f.DB.InTx(f.Context(), func(tx *postgres.Tx) (err error) {
		d, err = webhooks.LockDelivery(f.Context(), tx, e.Scope, e.ID, id)
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	timeOf := func(at *time.Time) string {
		if at == nil {
			return "-"
		}
		return at.Format("15:04")
	}
	return fmt.Sprintf("%s tier %d extra %d epoch %d due %s completed %s",
		d.Status, d.ScheduledAttempts, d.RequestedAttempts, d.Epoch, timeOf(d.DueAt), timeOf(d.CompletedAt))
}

func (f *fixture) retry(e domain.Endpoint, id affiliate.DeliveryID) (*affiliatev1.DeliveryDetail, error) {
	return f.service.RetryDelivery(f.asOwner(), &affiliatev1.RetryDeliveryRequest{WebhookId: e.ID.String(), DeliveryId: id.String()})
}

// cancelBlock runs one block of the cancel job, with a clock that is one hour ahead. A
// block is one transaction, which changes at most limit deliveries. The block must cancel
// exactly wantCanceled deliveries.
func (f *fixture) cancelBlock(e domain.Endpoint, limit, wantCanceled int) {
	f.Helper()
	n, err := webhookservice.CancelBlock(f.Context(), f.DB, f.oneHourLater, e.CancelDeliveries(), limit)
	if err != nil || n != wantCanceled {
		f.Fatalf("a block of the cancel job canceled %d deliveries, error %v, want %d", n, err, wantCanceled)
	}
}

func (f *fixture) oneHourLater() time.Time { return f.Now().Add(time.Hour) }
