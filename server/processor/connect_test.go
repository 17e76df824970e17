package processor_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

func connectRequest(key string) *affiliatev1.ConnectProcessorRequest {
	return &affiliatev1.ConnectProcessorRequest{Processor: "stripe", RestrictedKey: key}
}

// Key and secret are stored encrypted. They are not in responses, the audit log, events and
// notifications.
func TestConnectProcessor_KeepsSecrets(t *testing.T) {
	f := newFixture(t)
	status := f.connect()
	if !strings.HasPrefix(status.GetWebhookUrl(), publicURL+"/webhooks/stripe/") || status.GetEndpointStatus() != "enabled" {
		t.Errorf("status %v", status)
	}
	endpoint := f.stripe.Endpoints()[0]
	for _, event := range []string{"checkout.session.completed", "invoice.paid", "charge.refunded", "charge.dispute.created", "charge.dispute.closed", "refund.failed"} {
		if !slices.Contains(endpoint.EnabledEvents, event) {
			t.Errorf("the endpoint receives %q, want %s among them", endpoint.EnabledEvents, event)
		}
	}
	for _, table := range []string{"processor_connections", "audit_log", "notifications", "events", "river.river_job"} {
		for _, row := range f.Texts(`select to_jsonb(t)::text || coalesce(encode(convert_to(t::text, 'UTF8'), 'escape'), '') from ` + table + ` t`) {
			if strings.Contains(row, testKey) || strings.Contains(row, f.secret) {
				t.Errorf("%s contains a secret: %s", table, row)
			}
		}
	}
	if stored := f.Texts(`select encode(key, 'escape') || encode(secret, 'escape') from processor_connections`); strings.Contains(stored[0], testKey) || strings.Contains(stored[0], f.secret) {
		t.Error("the key or the secret is stored in clear text")
	}
	if got := f.AuditActions("processor_connection", f.connection.String()); !slices.Equal(got, []string{"processor.connect"}) {
		t.Errorf("audit actions %q", got)
	}
	if got := f.Texts(`select type from notifications`); !slices.Equal(got, []string{"processor.connected"}) {
		t.Errorf("notifications %q", got)
	}
}

// After a reconnection, messages of the replaced endpoint are accepted for three days.
func TestConnectProcessor_ReplacesTheEndpoint(t *testing.T) {
	f := newFixture(t)
	f.connect()
	first, oldSecret := f.connection, f.secret
	f.clock.Advance(time.Hour)
	f.stripe.SetAccount("rk_test_rolled0123456789", accountOf(f))
	if status := f.connect(func(r *affiliatev1.ConnectProcessorRequest) { r.RestrictedKey = "rk_test_rolled0123456789" }); status.GetId() != first.String() {
		t.Errorf("the reconnection has the id %s, want %s", status.GetId(), first)
	}
	if endpoints := f.stripe.Endpoints(); len(endpoints) != 2 || f.secret == oldSecret {
		t.Fatalf("%d endpoints, new secret: %v; want the old one too, until the job has run", len(endpoints), f.secret != oldSecret)
	}
	if left, err := f.tidy(); left != 0 || err != nil || len(f.stripe.Endpoints()) != 1 || f.stripe.Endpoints()[0].Secret != f.secret {
		t.Errorf("the job returned %d, %v; the endpoints are %+v, want the new one", left, err, f.stripe.Endpoints())
	}
	if jobs := f.Texts(`select args->>'number' from river.river_job where kind = 'resync_processor'`); !slices.Equal(jobs, []string{"1"}) {
		t.Errorf("resyncs %q, want one", jobs)
	}
	f.runResync()
	f.put(stripeserver.NewSession("cs_a", nil))
	deliver := func(secret string) affiliate.Reason {
		body := f.event("checkout.session.completed", "cs_a")
		_, err := f.deliverSigned(body, f.sign(body, secret, f.clock.Now()))
		return pgtest.ReasonOf(t, err)
	}
	if deliver(f.secret) != "" || deliver(oldSecret) != "" {
		t.Error("a message with the new or the old secret is refused")
	}
	f.clock.Advance(processor.RotatedProcessorSecretGrace)
	if deliver(f.secret) != "" || deliver(oldSecret) != affiliate.ReasonInvalidSignature {
		t.Error("after three days, only messages with the new secret must be accepted")
	}
	if got := f.AuditActions("processor_connection", first.String()); !slices.Equal(got, []string{"processor.connect", "processor.reconnect"}) {
		t.Errorf("audit actions %q", got)
	}
}

func TestUpdateProcessorConnection(t *testing.T) {
	f := newFixture(t)
	update := func(req *affiliatev1.UpdateProcessorConnectionRequest, paths ...string) (*affiliatev1.ProcessorConnection, error) {
		req.Processor, req.UpdateMask = "stripe", &fieldmaskpb.FieldMask{Paths: paths}
		if err := servertest.Check(f.service, req); err != nil {
			return nil, err
		}
		return f.service.UpdateProcessorConnection(f.asOwner(), req)
	}
	type request = affiliatev1.UpdateProcessorConnectionRequest
	_, err := update(&request{}, "create_conversions")
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
	before := f.connect()
	f.clock.Advance(time.Minute)
	for _, step := range []struct {
		req              *request
		paths            []string
		creates, include bool
	}{
		{&request{CreateConversions: new(false)}, []string{"create_conversions"}, false, false},
		{&request{IncludeOutOfBand: new(true)}, []string{"include_out_of_band"}, false, true},
		{&request{IncludeOutOfBand: new(true)}, []string{"include_out_of_band"}, false, true}, // no change
		{&request{}, nil, false, true},
		{&request{}, []string{"create_conversions", "include_out_of_band"}, true, false}, // the defaults
	} {
		got, err := update(step.req, step.paths...)
		if err != nil || got.GetCreateConversions() != step.creates || got.GetIncludeOutOfBand() != step.include ||
			got.GetId() != before.GetId() || got.GetEndpointStatus() != "enabled" || !got.GetConnectedAt().AsTime().Equal(before.GetConnectedAt().AsTime()) {
			t.Errorf("UpdateProcessorConnection with %v returned %v, %v, want createConversions %t and includeOutOfBand %t of the same connection",
				step.req, got, err, step.creates, step.include)
		}
		read, err := f.service.GetProcessorConnection(f.asOwner(), &affiliatev1.GetProcessorConnectionRequest{Processor: "stripe"})
		if err != nil || !proto.Equal(read, got) {
			t.Errorf("GetProcessorConnection returned %v, %v, want %v", read, err, got)
		}
	}
	if got := f.AuditActions("processor_connection", f.connection.String()); !slices.Equal(got, []string{"processor.connect", "processor.update", "processor.update", "processor.update"}) {
		t.Errorf("audit actions %q", got)
	}
	changes := f.Texts(`select concat(before->>'include_out_of_band', ' ', after->>'include_out_of_band') from audit_log where action = 'processor.update' order by at, id`)
	if !slices.Equal(changes, []string{"false false", "false true", "true false"}) {
		t.Errorf("the audit log has the changes %q of includeOutOfBand", changes)
	}
	_, err = update(&request{CreateConversions: new(true)})
	pgtest.RequireRefusal(t, err, affiliate.ReasonValidation, "update_mask")
	_, err = f.service.UpdateProcessorConnection(f.asOwner(), &request{Processor: "paypal"})
	pgtest.RequireRefusal(t, err, affiliate.ReasonNotFound)
}

// tidy runs the job that deletes replaced endpoints.
func (f *fixture) tidy() (left int, err error) {
	return f.service.TidyEndpoints(f.Context(), processor.TidyProcessorEndpoints{Workspace: f.Scope.Workspace, Connection: f.connection})
}

// An endpoint that was created a moment ago may belong to a connection that is being stored.
func TestTidyEndpoints_KeepsNewEndpoints(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.connect()
	if left, err := f.tidy(); left != 1 || err != nil || len(f.stripe.Endpoints()) != 2 {
		t.Errorf("the job returned %d, %v and left %d endpoints, want 1 and 2", left, err, len(f.stripe.Endpoints()))
	}
	f.clock.Advance(processor.EndpointGrace + time.Minute)
	if left, err := f.tidy(); left != 0 || err != nil || len(f.stripe.Endpoints()) != 1 {
		t.Errorf("the job returned %d, %v and left %d endpoints, want 0 and 1", left, err, len(f.stripe.Endpoints()))
	}
	f.disconnect()
	if left, err := f.tidy(); left != 0 || err != nil {
		t.Errorf("without a connection, the job returned %d, %v", left, err)
	}
}

// If a reconnection fails, events of the old endpoint still arrive.
func TestConnectProcessor_FailedReconnection(t *testing.T) {
	f := newFixture(t)
	f.connect()
	f.clock.Advance(time.Hour)
	for name, tc := range map[string]struct {
		fault stripeserver.Fault
		want  affiliate.Reason
	}{
		"rejected":       {stripeserver.Fault{Status: 400, Code: "url_invalid"}, affiliate.ReasonProcessorEndpointRejected},
		"internal error": {stripeserver.Fault{Status: 500}, affiliate.ReasonServiceUnavailable}, // POST is not repeated
		"no permission":  {stripeserver.Fault{Status: 403}, affiliate.ReasonProcessorPermissionMissing},
	} {
		tc.fault.Method, tc.fault.Path, tc.fault.After = "POST", "/v1/webhook_endpoints", 1 // the probe of the permission comes first
		f.stripe.Fail(tc.fault)
		_, err := f.service.ConnectProcessor(f.asOwner(), connectRequest(testKey))
		if got := pgtest.ReasonOf(t, err); got != tc.want {
			t.Errorf("%s: error %v, want %s", name, err, tc.want)
		}
		if endpoints := f.stripe.Endpoints(); len(endpoints) != 1 || endpoints[0].Secret != f.secret {
			t.Errorf("%s: the endpoints are %+v, want the old one", name, endpoints)
		}
	}
}

// A reconnection reads the events of the last three days. If the endpoint has failed, they can
// be missing for longer.
func TestConnectProcessor_ReadsMissedEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		connected, want time.Duration
		failing         bool
	}{
		"working endpoint":               {40 * 24 * time.Hour, processor.RotatedProcessorSecretGrace, false},
		"failing endpoint":               {40 * 24 * time.Hour, processor.MaxResyncAge, true},
		"failing endpoint of a new shop": {24 * time.Hour, 24 * time.Hour, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.connect()
			f.clock.Advance(tc.connected)
			if tc.failing {
				f.setEndpointStatus("disabled")
				if err := f.service.CheckEndpoint(t.Context(), processor.CheckProcessorEndpoint{Workspace: f.Scope.Workspace, Connection: f.connection}); err != nil {
					t.Fatal(err)
				}
			}
			f.connect()
			job, _ := f.takeResync()
			if got := f.clock.Now().Sub(job.Since); got.Round(time.Minute) != tc.want {
				t.Errorf("the resync reads the events of the last %v, want %v", got, tc.want)
			}
			f.WantCount(0, "failing connections", `select count(*) from processor_connections where endpoint_failing`)
		})
	}
}

// A new endpoint is deleted if the connection is not stored. It stays if the connection is
// stored but the response to COMMIT is lost.
func TestConnectProcessor_DatabaseFails(t *testing.T) {
	for _, stored := range []bool{false, true} {
		f := newFixture(t)
		f.service.DB = f.OpenHooked(func(sql string, _ []any) error {
			switch {
			case sql != "commit":
				return nil
			case stored:
				return pgtest.ErrResponseLost
			}
			return errors.New("the connection to the database was lost")
		})
		if _, err := f.service.ConnectProcessor(f.asOwner(), connectRequest(testKey)); err == nil {
			t.Fatal("ConnectProcessor returned no error although the database failed")
		}
		want := map[bool]int{false: 0, true: 1}[stored]
		f.WantCount(want, "connections", `select count(*) from processor_connections`)
		if got := f.stripe.Endpoints(); len(got) != want {
			t.Errorf("stored %t: the endpoints %+v are at Stripe, want %d", stored, got, want)
		}
		f.service.DB = f.DB
		f.connect()
	}
}

// accountOf returns the id of the connected account.
func accountOf(f *fixture) string {
	return f.Texts(`select account_id from processor_connections`)[0]
}

// If Stripe fails while an account is connected, nothing is stored, and the next attempt
// leaves one endpoint.
func TestConnectProcessor_Failures(t *testing.T) {
	for name, tc := range map[string]struct {
		fault stripeserver.Fault
		want  affiliate.Reason
	}{
		"permission check fails":     {stripeserver.Fault{Method: "GET", Path: "/v1/invoices", Status: 500, Times: 9}, affiliate.ReasonServiceUnavailable},
		"too many requests":          {stripeserver.Fault{Method: "GET", Path: "/v1/charges", Status: 429, RetryAfter: "1", Times: 9}, affiliate.ReasonServiceUnavailable},
		"no response":                {stripeserver.Fault{Method: "GET", Path: "/v1/account", Hang: 3 * time.Second, Times: 1}, ""}, // the second attempt succeeds
		"half a response":            {stripeserver.Fault{Method: "GET", Path: "/v1/account", Half: true, Times: 9}, affiliate.ReasonServiceUnavailable},
		"response with secret lost":  {stripeserver.Fault{Method: "POST", Path: "/v1/webhook_endpoints", Status: 500, AfterEffect: true, Times: 9}, affiliate.ReasonServiceUnavailable},
		"key ends during the checks": {stripeserver.Fault{Method: "GET", Path: "/v1/disputes", Status: 401, Times: 9}, affiliate.ReasonProcessorKeyInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.stripe.Fail(tc.fault)
			_, err := f.service.ConnectProcessor(f.asOwner(), connectRequest(testKey))
			if got := pgtest.ReasonOf(t, err); got != tc.want {
				t.Fatalf("error %v, want %s", err, tc.want)
			}
			if stored := f.Count(`select count(*) from processor_connections`); (stored == 1) != (tc.want == "") {
				t.Errorf("%d connections are stored", stored)
			}
			for range 10 { // use up the faults
				if _, err = f.service.ConnectProcessor(f.asOwner(), connectRequest(testKey)); err == nil {
					break
				}
			}
			if err != nil {
				t.Errorf("after the faults: error %v", err)
			}
			f.connection = processor.ConnectionIDOf(f.Scope, conversion.Stripe)
			f.clock.Advance(processor.EndpointGrace + time.Minute)
			if left, err := f.tidy(); left != 0 || err != nil || len(f.stripe.Endpoints()) != 1 {
				t.Errorf("after the job: %d left, error %v, %d endpoints; want one", left, err, len(f.stripe.Endpoints()))
			}
		})
	}
}

func TestConnectProcessor_NeedsPublicURL(t *testing.T) {
	f := newFixture(t)
	f.service.PublicURL = ""
	_, err := f.service.ConnectProcessor(f.asOwner(), connectRequest(testKey))
	pgtest.RequireRefusal(t, err, affiliate.ReasonServiceUnavailable)
}

// The status does not depend on Stripe.
func TestGetProcessorConnection_WithoutStripe(t *testing.T) {
	f := newFixture(t)
	f.connect()
	get := func() *affiliatev1.ProcessorConnection {
		status, err := f.service.GetProcessorConnection(f.asOwner(), &affiliatev1.GetProcessorConnectionRequest{Processor: "stripe"})
		if err != nil {
			t.Fatal(err)
		}
		return status
	}
	f.stripe.Fail(stripeserver.Fault{Method: "GET", Path: "/v1/webhook_endpoints", Status: 500, Times: 9})
	if got := get(); !got.GetConnected() || got.GetEndpointStatus() != "unknown" {
		t.Errorf("status %v, want connected with an unknown endpoint", got)
	}
	f.put(stripeserver.NewSession("cs_a", nil))
	body := f.event("checkout.session.completed", "cs_a")
	if _, err := f.deliver(body); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(90 * time.Second)
	if got := get(); got.GetLag() < 90 || got.GetLastEventAt() == nil {
		t.Errorf("an event waits since 90 seconds, but the status is %v", got)
	}
	wantOutcome(t, f.run(body), "applied")
	if got := get(); got.GetLag() != 0 {
		t.Errorf("the lag is %d after all events are applied", got.GetLag())
	}
}
