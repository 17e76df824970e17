package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/fullstorydev/grpchan/inprocgrpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func benchPage() *affiliatev1.ListCommissionsResponse {
	at := timestamppb.New(time.Date(2026, 1, 2, 3, 4, 5, 678e6, time.UTC))
	page := &affiliatev1.ListCommissionsResponse{Total: 1234567, Page: 3, Limit: 20}
	for range 20 {
		page.Data = append(page.Data, &affiliatev1.CommissionListItem{
			Id: "0198c0de-0000-7000-8000-000000000001", ProgramId: "0198c0de-0000-7000-8000-000000000002", ProgramName: "Acme partners",
			ParticipantId: "0198c0de-0000-7000-8000-000000000003", PartnerId: "0198c0de-0000-7000-8000-000000000004", PartnerName: "Jané Doe",
			PartnerEmail: "jane@example.com", ConversionId: "0198c0de-0000-7000-8000-000000000005", ExternalTransactionId: "order-1",
			ClickId: ptr("0198c0de-0000-7000-8000-000000000006"), Mode: affiliatev1.Mode_MODE_TEST, Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING,
			CommissionType: affiliatev1.CommissionType_COMMISSION_TYPE_PERCENTAGE, EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, RateBps: ptr(int32(3000)),
			AmountCents: 3000, OriginalAmountCents: 3000, Currency: "EUR", BaseAmountCents: 10000, SaleAmountCents: 10000, SaleCurrency: "EUR",
			ReviewReasons: []string{}, HoldUntil: at, HoldActive: true, CreatedAt: at, UpdatedAt: at,
		})
	}
	return page
}

func BenchmarkEncode(b *testing.B) {
	page := benchPage()
	b.Run("gateway", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := (marshaler{}).Marshal(page); err != nil {
				b.Fatalf("unexpected error: %v", err)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		b.ReportAllocs()
		options := protojson.MarshalOptions{EmitUnpopulated: true}
		for b.Loop() {
			if _, err := options.Marshal(page); err != nil {
				b.Fatalf("unexpected error: %v", err)
			}
		}
	})
}

const benchConversion = `{"event_type":"purchase","external_transaction_id":"order-1001","amount_cents":10000,"currency":"EUR",` +
	`"click_id":"0198c0de-0000-7000-8000-000000000006","customer_id":"c-77","occurred_at":"2026-01-02T03:04:05.678Z","tax_cents":1900,` +
	`"line_items":[{"product_id":"p-1","quantity":2,"amount_cents":5000}],"metadata":{"campaign":"spring","n":3}}`

func BenchmarkDecode(b *testing.B) {
	b.Run("gateway", func(b *testing.B) {
		plan, err := planFor((&affiliatev1.ReportConversionRequest{}).ProtoReflect().Descriptor())
		if err != nil {
			b.Fatalf("unexpected error: %v", err)
		}
		body := []byte(benchConversion)
		b.ReportAllocs()
		for b.Loop() {
			var m affiliatev1.ReportConversionRequest
			var faults violations
			decodeBody(body, plan.names, m.ProtoReflect(), &faults)
			if faults.list != nil {
				b.Fatalf("decodeBody reports %v, want no faults", faults.list)
			}
		}
	})
	b.Run("protojson", func(b *testing.B) {
		// protojson accepts enums only by their proto names.
		body := bytes.Replace([]byte(benchConversion), []byte(`"purchase"`), []byte(`"EVENT_TYPE_PURCHASE"`), 1)
		b.ReportAllocs()
		for b.Loop() {
			var m affiliatev1.ReportConversionRequest
			if err := protojson.Unmarshal(body, &m); err != nil {
				b.Fatalf("unexpected error: %v", err)
			}
		}
	})
}

// benchReply is the response of the core in benchmarks. plainHandler writes the same
// values.
var benchReply = &affiliatev1.ReportConversionResponse{
	Id: "0198c0de-0000-7000-8000-000000000001", EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: "order-1001", AmountCents: 10000,
	Currency: ptr("EUR"), Mode: affiliatev1.Mode_MODE_TEST, OccurredAt: timestamppb.New(time.Unix(1767323045, 678e6)), CreatedAt: timestamppb.New(time.Unix(1767323045, 678e6)), Attributed: true,
	Attribution: &affiliatev1.ConversionAttribution{Method: ptr("click"), ReasonCode: "CLICK_MATCHED", Explanation: "The click was matched.", DecisionId: "0198c0de-0000-7000-8000-000000000007"},
	Commission:  &affiliatev1.ConversionCommission{Id: "0198c0de-0000-7000-8000-000000000008", Status: affiliatev1.CommissionStatus_COMMISSION_STATUS_PENDING, AmountCents: 3000, Currency: "EUR"},
	Fraud:       &affiliatev1.FraudVerdict{},
}

type benchConversions struct {
	affiliatev1.UnimplementedConversionServiceServer
}

func (benchConversions) ReportConversion(context.Context, *affiliatev1.ReportConversionRequest) (*affiliatev1.ReportConversionResponse, error) {
	return benchReply, nil
}

type plainConversion struct {
	EventType             string         `json:"event_type"`
	ExternalTransactionID string         `json:"external_transaction_id"`
	AmountCents           *int64         `json:"amount_cents"`
	Currency              *string        `json:"currency"`
	ClickID               *string        `json:"click_id"`
	CustomerID            *string        `json:"customer_id"`
	OccurredAt            *time.Time     `json:"occurred_at"`
	TaxCents              *int64         `json:"tax_cents"`
	LineItems             []plainItem    `json:"line_items"`
	Metadata              map[string]any `json:"metadata"`
}

type plainItem struct {
	ProductID   string `json:"product_id"`
	Quantity    *int64 `json:"quantity"`
	AmountCents int64  `json:"amount_cents"`
}

type plainAttribution struct {
	Method        *string    `json:"method"`
	ReasonCode    string     `json:"reason_code"`
	Explanation   string     `json:"explanation"`
	ClickID       *string    `json:"click_id"`
	PromoCode     *string    `json:"promo_code"`
	ProgramID     *string    `json:"program_id"`
	ParticipantID *string    `json:"participant_id"`
	ClickedAt     *time.Time `json:"clicked_at"`
	ExpiresAt     *time.Time `json:"expires_at"`
	DecisionID    string     `json:"decision_id"`
}

type plainCommission struct {
	ID          string     `json:"id"`
	Status      string     `json:"status"`
	AmountCents int64      `json:"amount_cents"`
	Currency    string     `json:"currency"`
	HoldUntil   *time.Time `json:"hold_until"`
	NeedsReview bool       `json:"needs_review"`
}

type plainFraud struct {
	Flagged bool     `json:"flagged"`
	Signals []string `json:"signals"`
}

type plainReply struct {
	ID                    string            `json:"id"`
	EventType             string            `json:"event_type"`
	ExternalTransactionID string            `json:"external_transaction_id"`
	AmountCents           int64             `json:"amount_cents"`
	Currency              *string           `json:"currency"`
	Mode                  string            `json:"mode"`
	OccurredAt            time.Time         `json:"occurred_at"`
	CreatedAt             time.Time         `json:"created_at"`
	Attributed            bool              `json:"attributed"`
	Attribution           *plainAttribution `json:"attribution"`
	Commission            *plainCommission  `json:"commission"`
	Fraud                 *plainFraud       `json:"fraud"`
}

// plainHandler returns the handler with which the benchmarks compare the gateway. It
// reads the same body and writes the same response with net/http and encoding/json.
func plainHandler() http.Handler {
	at := time.Unix(1767323045, 678e6).UTC()
	reply := plainReply{
		ID: benchReply.GetId(), EventType: "purchase", ExternalTransactionID: "order-1001", AmountCents: 10000, Currency: ptr("EUR"), Mode: "test", OccurredAt: at, CreatedAt: at, Attributed: true,
		Attribution: &plainAttribution{Method: ptr("click"), ReasonCode: "CLICK_MATCHED", Explanation: "The click was matched.", DecisionID: benchReply.GetAttribution().GetDecisionId()},
		Commission:  &plainCommission{ID: benchReply.GetCommission().GetId(), Status: "pending", AmountCents: 3000, Currency: "EUR"}, Fraud: &plainFraud{Signals: []string{}},
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in plainConversion
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusCreated)
		_ = json.NewEncoder(w).Encode(&reply)
	})
}

// newInProcessGateway returns a gateway whose core runs in the same process and always
// responds with benchReply.
func newInProcessGateway(b testing.TB) http.Handler {
	b.Helper()
	channel := &inprocgrpc.Channel{}
	affiliatev1.RegisterConversionServiceServer(channel, benchConversions{})
	handler, err := New(Config{Conn: channel, AllowHTTP: true, Timeout: -1})
	if err != nil {
		b.Fatalf("unexpected error: %v", err)
	}
	return handler
}

// BenchmarkRoute sends conversions through real connections to a gateway and to
// plainHandler. It measures both in short alternating rounds, because the speed of a
// shared machine varies. The ratio of a round is the time of plainHandler divided by the
// time of the gateway. The metric share-of-net/http is the median of these ratios. Command
// test/load measures a similar ratio for another route; it is row V4 of that command's
// results.
func BenchmarkRoute(b *testing.B) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	post := func(url string, requests int) time.Duration {
		var group sync.WaitGroup
		start := time.Now()
		for range routeClients {
			group.Go(func() {
				for range requests / routeClients {
					response, err := client.Post(url+"/api/v1/conversions", "application/json", bytes.NewReader([]byte(benchConversion)))
					if err != nil {
						b.Errorf("sending a conversion: %v", err)
						return
					}
					_, _ = io.Copy(io.Discard, response.Body)
					_ = response.Body.Close()
					if response.StatusCode != http.StatusCreated {
						b.Errorf("status %d, want 201", response.StatusCode)
						return
					}
				}
			})
		}
		group.Wait()
		return time.Since(start)
	}
	gateway, plain := httptest.NewServer(newInProcessGateway(b)), httptest.NewServer(plainHandler())
	defer gateway.Close()
	defer plain.Close()
	post(gateway.URL, 10*routeClients)
	post(plain.URL, 10*routeClients)
	var ratios []float64
	for b.Loop() {
		gatewayTime, plainTime := post(gateway.URL, 64*routeClients), post(plain.URL, 64*routeClients)
		ratios = append(ratios, plainTime.Seconds()/gatewayTime.Seconds())
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "share-of-net/http")
	b.ReportMetric(0, "ns/op")
}

// routeClients is the number of concurrent requests.
const routeClients = 16

// BenchmarkHandler measures the same handlers as BenchmarkRoute, but without sockets. It
// shows the CPU time of the gateway itself.
func BenchmarkHandler(b *testing.B) {
	for _, c := range []struct {
		name    string
		handler http.Handler
	}{{"gateway", newInProcessGateway(b)}, {"net-http", plainHandler()}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				request := httptest.NewRequest(http.MethodPost, "/api/v1/conversions", bytes.NewReader([]byte(benchConversion)))
				request.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				c.handler.ServeHTTP(w, request)
				if w.Code != http.StatusCreated {
					b.Fatalf("status %d, want 201: %s", w.Code, w.Body)
				}
			}
		})
	}
}

// Both handlers of BenchmarkRoute must write the same JSON.
func TestBenchmarkRoute_HandlersWriteSameResponse(t *testing.T) {
	var bodies [2]map[string]any
	for i, handler := range []http.Handler{newInProcessGateway(t), plainHandler()} {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/api/v1/conversions", bytes.NewReader([]byte(benchConversion))))
		if err := json.Unmarshal(w.Body.Bytes(), &bodies[i]); err != nil || w.Code != 201 {
			t.Fatalf("status %d, want 201 with valid JSON: %s (error %v)", w.Code, w.Body, err)
		}
	}
	a, _ := json.Marshal(bodies[0])
	b, _ := json.Marshal(bodies[1])
	if !bytes.Equal(a, b) {
		t.Errorf("the responses differ:\ngateway      %s\nplainHandler %s", a, b)
	}
}
