package processor_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"
	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/conversion"
	"github.com/tributary-hq/tributary/affiliate/processor"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	conversionservice "github.com/tributary-hq/tributary/server/conversion"
	processorservice "github.com/tributary-hq/tributary/server/processor"
	"github.com/tributary-hq/tributary/server/processor/stripe"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
	"github.com/tributary-hq/tributary/tools/stripeserver"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main{M: m}.Run()) }

const (
	testKey   = "rk_test_0123456789abcdef"
	publicURL = "https://api.example.com"
)

type object = map[string]any

// fixture is a shop in test mode, the service under test, and a stand-in for Stripe. Ada is
// an approved participant of the shop's programme, which pays 30 percent.
type fixture struct {
	*pgtest.Shop

	service *processorservice.Service
	limiter limiter
	stripe  *stripeserver.Server
	clock   *pgtest.Clock
	ada     pgtest.Participant
	// connection is the connection of the shop, after connect.
	connection processor.ConnectionID
	secret     string
}

// newFixture returns a fixture. program changes the columns of the programme.
func newFixture(t *testing.T, program ...pgtest.Row) *fixture {
	t.Helper()
	clock := pgtest.NewRunningClock()
	f := &fixture{Shop: pgtest.Open(t, clock.Now).NewShop(affiliate.ModeTest, append([]pgtest.Row{pgtest.Rules(), {"fraud_policy": "off"}}, program...)...), clock: clock}
	f.ada = f.NewParticipant(f.Scope, f.Program, f.NewPartner("Ada"))
	var err error
	if f.stripe, err = stripeserver.New(); err != nil {
		t.Fatal(err)
	}
	listener := httptest.NewServer(f.stripe)
	t.Cleanup(listener.Close)
	f.service = f.newService(listener.URL)
	return f
}

// limiter counts requests. It allows all of them if limit is 0.
type limiter struct {
	limit, count int
	zone         server.Zone
}

func (l *limiter) Allow(_ context.Context, zone server.Zone, _ string) server.Allowance {
	l.count++
	l.zone = zone
	return server.Allowance{Allowed: l.limit == 0 || l.count <= l.limit, Limit: l.limit, RetryAfter: 7}
}

func (f *fixture) newService(stripeURL string) *processorservice.Service {
	log := slog.New(slog.DiscardHandler)
	sales := conversionservice.New(conversionservice.Config{DB: f.DB, HashKeys: affiliate.HashKeys{[]byte("key of the tests")}, Now: f.clock.Now, Log: log})
	return processorservice.New(processorservice.Config{
		DB: f.DB, Sales: sales, Seal: servertest.Seal(f.TB), PublicURL: publicURL + "/", Limiter: &f.limiter, Log: log, Now: f.clock.Now,
		Processors: map[conversion.ProcessorName]processorservice.Processor{
			conversion.Stripe: stripe.New(stripe.Config{APIURL: stripeURL, MaxEvents: 200, HTTPClient: &http.Client{Timeout: 2 * time.Second}}),
		},
	})
}

// asOwner returns the context of a call of the shop's owner.
func (f *fixture) asOwner() context.Context {
	return servertest.AsMember(f.TB, f.Scope, f.Owner, affiliate.RoleOwner)
}

// connect connects the account of testKey.
func (f *fixture) connect(change ...func(*affiliatev1.ConnectProcessorRequest)) *affiliatev1.ProcessorConnection {
	f.Helper()
	request := &affiliatev1.ConnectProcessorRequest{Processor: "stripe", RestrictedKey: testKey}
	for _, c := range change {
		c(request)
	}
	status, err := f.service.ConnectProcessor(f.asOwner(), request)
	if err != nil {
		f.Fatal(err)
	}
	f.connection, _ = affiliate.ParseID[processor.ConnectionID](status.GetId())
	endpoints := f.stripe.Endpoints()
	f.secret = endpoints[len(endpoints)-1].Secret
	return status
}

// put stores objects at Stripe.
func (f *fixture) put(objects ...object) {
	for _, o := range objects {
		f.stripe.Put(o)
	}
}

// deliver sends an event to the service, signed with the secret of the connection.
func (f *fixture) deliver(body []byte) (affiliatev1.ReceivedEventStatus, error) {
	return f.deliverSigned(body, f.sign(body, f.secret, f.clock.Now()))
}

func (f *fixture) sign(body []byte, secret string, at time.Time) string {
	return webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: body, Secret: secret, Timestamp: at}).Header
}

func (f *fixture) deliverSigned(body []byte, header string) (affiliatev1.ReceivedEventStatus, error) {
	ctx := metadata.NewIncomingContext(f.Context(), metadata.Pairs("stripe-signature", header))
	response, err := f.service.ReceiveProcessorEvent(ctx, &affiliatev1.ReceiveProcessorEventRequest{
		Processor: "stripe", ConnectionId: f.connection.String(), Body: &httpbody.HttpBody{Data: body},
	})
	return response.GetStatus(), err
}

// idOf returns the id of an event.
func idOf(body []byte) string {
	var event struct{ ID string }
	if err := json.Unmarshal(body, &event); err != nil {
		panic(err)
	}
	return event.ID
}

func (f *fixture) keyOf(body []byte) processor.EventKey {
	return processor.EventKey{Workspace: f.Scope.Workspace, Mode: f.Scope.Mode, Connection: f.connection, Event: idOf(body)}
}

// apply delivers an event and runs its job once. It returns the outcome as the list of
// events shows it: the status, and the reason after a colon.
func (f *fixture) apply(body []byte) string {
	f.Helper()
	if _, err := f.deliver(body); err != nil {
		f.Fatal(err)
	}
	return f.run(body)
}

// run runs the job of a delivered event once and returns the outcome.
func (f *fixture) run(body []byte) string {
	f.Helper()
	if _, err := f.service.Apply(f.Context(), f.keyOf(body), false); err != nil {
		f.Fatal(err)
	}
	return f.outcome(body)
}

// outcome returns the outcome of an event as the list of events shows it.
func (f *fixture) outcome(body []byte) string {
	f.Helper()
	page := int32(1)
	for {
		size := int32(100)
		list, err := f.service.ListProcessorEvents(f.asOwner(), &affiliatev1.ListProcessorEventsRequest{Processor: "stripe", Page: &page, PageSize: &size})
		if err != nil {
			f.Fatal(err)
		}
		for _, e := range list.GetData() {
			if e.GetId() == idOf(body) {
				status := strings.ToLower(strings.TrimPrefix(e.GetStatus().String(), "PROCESSOR_EVENT_OUTCOME_"))
				return strings.TrimSuffix(status+":"+e.GetReason(), ":")
			}
		}
		if len(list.GetData()) == 0 {
			f.Fatalf("event %s is not in the list", idOf(body))
		}
		page++
	}
}

// event returns an event about a stored object.
func (f *fixture) event(eventType, id string) []byte { return f.stripe.Event(eventType, id) }

// sales returns the conversions with their commissions, oldest first, as lines of text.
func (f *fixture) sales() []string {
	f.Helper()
	return f.Texts(`
		select format('%s %s %s %s %s %s', c.external_transaction_id, c.event_type, c.amount_cents, coalesce(c.currency, '-'), c.reason_code,
			case when m.id is null then 'nothing' else format('%s %s', m.status, m.amount_cents) end)
		from conversions c
		left join commissions m on m.workspace_id = c.workspace_id and m.decision_id = c.decision_id
		where c.workspace_id = $1
		order by c.occurred_at, c.external_transaction_id`, f.Scope.Workspace)
}

// click stores a click on Ada's link and returns its id.
func (f *fixture) click() string { return f.NewClick(f.ada).ID.String() }

// ago returns a time in Unix seconds.
func (f *fixture) ago(d time.Duration) int64 { return f.clock.Now().Add(-d).Unix() }

func minutes(n int) time.Duration { return time.Duration(n) * time.Minute }
