package e2e_test

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// spanReceiver receives spans in the protocol OTLP over HTTP.
type spanReceiver struct {
	url string

	mu     sync.Mutex
	spans  []receivedSpan
	bodies []string
}

// receivedSpan is a span and the name of the program that has sent it.
type receivedSpan struct {
	*tracepb.Span
	program string
}

func startSpanReceiver(t *testing.T) *spanReceiver {
	t.Helper()
	r := &spanReceiver{}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.url = server.URL + "/v1/traces"
	return r
}

func (r *spanReceiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	var data tracepb.TracesData
	if err != nil || req.URL.Path != "/v1/traces" || req.Header.Get("Content-Type") != "application/x-protobuf" || proto.Unmarshal(body, &data) != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.bodies = append(r.bodies, string(body))
	for _, resource := range data.GetResourceSpans() {
		program := ""
		for _, attribute := range resource.GetResource().GetAttributes() {
			if attribute.GetKey() == "service.name" {
				program = attribute.GetValue().GetStringValue()
			}
		}
		for _, scope := range resource.GetScopeSpans() {
			for _, span := range scope.GetSpans() {
				r.spans = append(r.spans, receivedSpan{span, program})
			}
		}
	}
}

// ofTrace returns the received spans of a trace as texts "program: name", sorted.
func (r *spanReceiver) ofTrace(trace string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []string
	for _, span := range r.spans {
		if hex.EncodeToString(span.GetTraceId()) == trace {
			names = append(names, span.program+": "+span.GetName())
		}
	}
	slices.Sort(names)
	return names
}

// find returns the first span of a trace with a name, or nil.
func (r *spanReceiver) find(trace, name string) *tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, span := range r.spans {
		if hex.EncodeToString(span.GetTraceId()) == trace && span.GetName() == name {
			return span.Span
		}
	}
	return nil
}

// awaitSpans waits until a trace has the given spans ("program: name").
func (r *spanReceiver) awaitSpans(t *testing.T, trace string, want ...string) {
	t.Helper()
	eventually(t, waitTimeout, "the spans arrive", func() error {
		got := r.ofTrace(trace)
		for _, name := range want {
			if !slices.Contains(got, name) {
				return fmt.Errorf("the trace has the spans %q and not %q", got, name)
			}
		}
		return nil
	})
}

// awaitStatements waits until a trace has a span of a SQL statement.
func (r *spanReceiver) awaitStatements(t *testing.T, trace string) {
	t.Helper()
	eventually(t, waitTimeout, "a statement arrives", func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, span := range r.spans {
			for _, attribute := range span.GetAttributes() {
				if hex.EncodeToString(span.GetTraceId()) == trace && attribute.GetKey() == "db.system.name" && attribute.GetValue().GetStringValue() == "postgresql" {
					return nil
				}
			}
		}
		return errors.New("the trace has no span of a statement")
	})
}

const (
	clickTrace = "0af7651916cd43dd8448eb211c80319c"
	saleTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
)

// traceparent returns a header of a client that has recorded its own span.
func traceparent(trace string) string { return "00-" + trace + "-00f067aa0ba902b7-01" }

// Values of a request that no span may contain.
const (
	tracedAddress = "203.0.113.77"
	tracedAgent   = "Agent-Of-A-Visitor"
	tracedBaggage = "baggage-of-a-client"
	tracedState   = "state-of-a-client"
	tracedPath    = "token-in-a-path"
	tracedOrder   = "order-of-a-traced-buyer"
)

// traced returns a client whose requests have a trace, and values that no span may contain.
func (sys *system) traced(trace string) apiClient {
	return sys.client().withHeader("Traceparent", traceparent(trace)).withHeader("Tracestate", "shop="+tracedState).
		withHeader("Baggage", "user="+tracedBaggage).withHeader("User-Agent", tracedAgent).fromAddress(tracedAddress)
}

// sell sends a click and a sale with the headers of a trace each, and returns the request
// of the webhook for the sale.
func (f fixture) sell(t *testing.T, endpoint webhookEndpoint) webhookRequest {
	t.Helper()
	f.click(t) // waits until the collector accepts the code
	// The statements of a batch of clicks belong to the trace of its first click, so the
	// traced click must be in a batch of its own.
	eventually(t, waitTimeout, "the first click is stored", func() error {
		if f.sys.count(t, `select count(*) from clicks where workspace_id = $1`, f.merchant.workspace) == 0 {
			return errors.New("it is not in the table")
		}
		return nil
	})
	click := f.sys.traced(clickTrace).withHeader("X-Public-Key", f.publicKey).
		send(t, http.MethodPost, f.sys.edge+"/v1/clicks", object{"referral_code": f.code, "consent": "granted"}).
		wantStatus(http.StatusCreated).text("click_id")
	sale := purchase(click)
	sale["external_transaction_id"] = tracedOrder
	seller := f.sys.traced(saleTrace).withCredential(f.secretKey)
	seller.post(t, "/api/v1/conversions", sale).wantStatus(http.StatusCreated)
	seller.get(t, "/api/v1/programs/"+tracedPath)
	seller.get(t, "/api/v1/health").wantStatus(http.StatusOK)
	return endpoint.awaitRequests(t, 1)[0]
}

// TestTraces follows a click and a sale through all programs.
func TestTraces(t *testing.T) {
	t.Parallel()
	for name, separate := range map[string]bool{"separate gateway": true, "gateway in the core": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			receiver := startSpanReceiver(t)
			sys := start(t, setup{separateProcesses: separate, env: map[string]string{
				"TRIBUTARY_TRACES_URL": receiver.url, "TRIBUTARY_TRACES_SAMPLE": "1",
			}})
			f := sys.newFixture(t, "test", nil)
			webhook := f.sell(t, f.merchant.startEndpoint(t, object{"subscriptions": []string{"conversion.created"}}))

			sale := []string{"tributary-core: affiliate.v1.ConversionService/ReportConversion", "tributary-core: webhook attempt"}
			if separate {
				receiver.awaitSpans(t, clickTrace, "tributary-collector: POST /v1/clicks", "tributary-collector: xadd", "tributary-core: store click")
				receiver.awaitStatements(t, clickTrace)
				sale = append(sale, "tributary-gateway: POST /api/v1/conversions", "tributary-gateway: affiliate.v1.ConversionService/ReportConversion")
				stored, request := receiver.find(clickTrace, "store click"), receiver.find(clickTrace, "POST /v1/clicks")
				if string(stored.GetParentSpanId()) != string(request.GetSpanId()) {
					t.Error("the span of ingestion is not a child of the span of the request")
				}
			} else {
				sale = append(sale, "tributary-core: POST /api/v1/conversions")
			}
			receiver.awaitSpans(t, saleTrace, sale...)
			receiver.awaitStatements(t, saleTrace)

			want := fmt.Sprintf("00-%s-%x-01", saleTrace, receiver.find(saleTrace, "webhook attempt").GetSpanId())
			if got := webhook.header.Get("Traceparent"); got != want {
				t.Errorf("the webhook has the header traceparent %q, want %q", got, want)
			}
			if got := webhook.header.Get("Tracestate") + webhook.header.Get("Baggage"); got != "" {
				t.Errorf("the webhook has a trace state or baggage: %q", got)
			}
			wantLogLine(t, sys.logs.String(), `"msg":"call"`, `ConversionService/ReportConversion`, `"trace_id":"`+saleTrace+`"`, `"span_id":"`)
			for _, span := range receiver.ofTrace(saleTrace) {
				if strings.Contains(span, "health") {
					t.Errorf("a health probe has the span %q", span)
				}
			}

			sys.stop() // sends the last spans
			receiver.mu.Lock()
			defer receiver.mu.Unlock()
			for _, body := range receiver.bodies {
				for _, hidden := range []string{
					tracedAddress, tracedAgent, tracedBaggage, tracedState, tracedPath, tracedOrder, f.secretKey, f.publicKey, f.merchant.email, f.partner.email, f.code, password,
				} {
					if strings.Contains(body, hidden) {
						t.Errorf("a span contains %q", hidden)
					}
				}
			}
		})
	}
}

func wantLogLine(t *testing.T, log string, parts ...string) {
	t.Helper()
	for line := range strings.Lines(log) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) }) {
			return
		}
	}
	t.Errorf("no line of the log contains %q", parts)
}

// TestTraces_ClientsCannotForceRecording sends the sampled flag to a system that records no
// requests.
func TestTraces_ClientsCannotForceRecording(t *testing.T) {
	t.Parallel()
	receiver := startSpanReceiver(t)
	sys := start(t, setup{separateProcesses: true, env: map[string]string{
		"TRIBUTARY_TRACES_URL": receiver.url, "TRIBUTARY_TRACES_SAMPLE": "0",
	}})
	f := sys.newFixture(t, "test", nil)
	webhook := f.sell(t, f.merchant.startEndpoint(t, object{"subscriptions": []string{"conversion.created"}}))
	sys.stop()
	if got := webhook.header.Get("Traceparent"); got != "" {
		t.Errorf("the webhook has the header traceparent %q, want none", got)
	}
	if len(receiver.bodies) > 0 || strings.Contains(sys.logs.String(), "trace_id") {
		t.Errorf("the receiver got %d requests, and the log has lines with traces: %t", len(receiver.bodies), strings.Contains(sys.logs.String(), "trace_id"))
	}
}

// TestTraces_ReceiverUnreachable checks that requests do not depend on the receiver, and that
// the system stops.
func TestTraces_ReceiverUnreachable(t *testing.T) {
	t.Parallel()
	hanging := listen(t) // accepts connections and never responds
	defer func() { _ = hanging.Close() }()
	closed := listen(t)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	for name, url := range map[string]string{"hanging": address(hanging), "refused": address(closed)} {
		t.Run(name, func(t *testing.T) {
			sys := start(t, setup{env: map[string]string{"TRIBUTARY_TRACES_URL": url + "/v1/traces", "TRIBUTARY_TRACES_SAMPLE": "1"}})
			f := sys.newFixture(t, "test", nil)
			webhook := f.sell(t, f.merchant.startEndpoint(t, object{"subscriptions": []string{"conversion.created"}}))
			if got := webhook.header.Get("Traceparent"); !strings.Contains(got, saleTrace) {
				t.Errorf("the webhook has the header traceparent %q, want the trace %s", got, saleTrace)
			}
			sys.stop()
			if lines := strings.Count(sys.logs.String(), "traces cannot be exported"); name == "refused" && lines != 1 {
				t.Errorf("the log has %d lines about the receiver, want 1", lines)
			}
		})
	}
}
