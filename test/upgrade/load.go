package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

const (
	// workers is the number of goroutines that send requests.
	workers = 4
	// requestTimeout is the maximum time of a request. A request that takes longer has
	// failed.
	requestTimeout = 15 * time.Second
	// failuresShown is the maximum number of failures that verdict prints.
	failuresShown = 10
	password      = "a long enough password"
	referralCode  = "upgrade"
	promoCode     = "upgrade"
	// clicksPath is the path of the only request to the collector. All other requests are
	// sent to the gateway.
	clicksPath = "/v1/clicks"
	// readinessPath responds with 503 as soon as a gateway stops, before the proxy has
	// noticed this.
	readinessPath = "/health/ready"
)

type object = map[string]any

// load sends requests to a gateway and a collector and counts the responses.
type load struct {
	gateway, collector string // addresses
	client             *http.Client

	merchant, partner, secretKey, publicKey string
	// readPaths contains the paths of all GET routes in the OpenAPI document except
	// readinessPath, with parameters in braces.
	readPaths []string

	counter atomic.Int64
	clicks  atomic.Int64 // acknowledged clicks
	mu      sync.Mutex
	// writes counts the requests that are not GET requests, by method and path. In the
	// path, ids are replaced by {id}.
	writes map[string]writeCount
	// ids maps the name of a path parameter to the newest id that a response contained.
	ids      map[string]string
	orders   []string // the external ids of acknowledged sales
	statuses map[int]int
	failures []string
	failed   int
}

// writeCount counts the requests of one kind.
type writeCount struct{ sent, succeeded int }

// newLoad creates the data that the requests need, for example a merchant, a partner, a
// programme and a promo code. It returns an error if the service rejects one of these
// requests.
func newLoad(ctx context.Context, gateway, collector string) (*load, error) {
	l := &load{
		gateway: gateway, collector: collector, client: &http.Client{Timeout: requestTimeout},
		ids: map[string]string{}, statuses: map[int]int{}, writes: map[string]writeCount{},
	}
	var faults []error
	step := func(method, path, credential string, body object) object {
		status, response, err := l.request(ctx, method, path, credential, body)
		if err != nil || status >= http.StatusBadRequest {
			faults = append(faults, fmt.Errorf("%s %s: %d %s %w", method, path, status, response, errors.Join(err)))
			return object{}
		}
		var read object
		_ = json.Unmarshal(response, &read) // some responses are empty
		return read
	}
	text := func(response object, key string) string { value, _ := response[key].(string); return value }
	l.merchant = text(step(http.MethodPost, "/auth/merchant/register", "", object{
		"email": "merchant@example.com", "password": password, "name": "Mia", "workspaceName": "Shop",
	}), "accessToken")
	l.partner = text(step(http.MethodPost, "/auth/partner/register", "", object{
		"email": "partner@example.com", "password": password, "name": "Pat", "country": "DE",
	}), "accessToken")
	l.secretKey = text(step(http.MethodPost, "/api-keys", l.merchant, object{"name": "Upgrade"}), "secretKey")
	l.publicKey = text(step(http.MethodGet, "/api-keys", l.merchant, nil), "publicKey")
	l.ids["programId"] = text(step(http.MethodPost, "/programs", l.merchant, object{
		"name": "Spring", "slug": "spring", "websiteUrl": "https://shop.example.com", "isPublic": true, "currency": "EUR",
		"commissionRules": object{"commissionType": "percentage", "percentage": 30, "holdPeriodDays": 0, "autoApproval": false},
	}), "id")
	program := "/programs/" + l.ids["programId"]
	step(http.MethodPut, program+"/fraud-policy", l.merchant, object{"policy": "off"})
	step(http.MethodPost, program+"/activate", l.merchant, nil)
	l.ids["participantId"] = text(step(http.MethodPost, "/partner"+program+"/apply", l.partner, object{"acceptTerms": true, "referralCode": referralCode}), "id")
	step(http.MethodPatch, program+"/partners/"+l.ids["participantId"]+"/approve", l.merchant, object{})
	l.ids["promoCodeId"] = text(step(http.MethodPost, program+"/promo-codes", l.merchant, object{
		"participantId": l.ids["participantId"], "code": promoCode, "discountType": "percentage", "discountValue": 10,
	}), "id")
	step(http.MethodPatch, "/partner/payout-method", l.partner, object{"method": "paypal", "account": "partner@example.com", "password": password})
	document := step(http.MethodGet, "/openapi.json", "", nil)
	paths, _ := document["paths"].(object)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		operations, _ := paths[path].(object)
		path = strings.TrimPrefix(path, "/api/v1")
		if _, hasGet := operations["get"]; hasGet && path != readinessPath {
			l.readPaths = append(l.readPaths, path)
		}
	}
	if len(l.readPaths) == 0 {
		faults = append(faults, errors.New("the OpenAPI document has no routes"))
	}
	l.ids["webhookId"] = text(step(http.MethodPost, "/webhooks", l.merchant, object{"url": "https://127.0.0.1:1/", "subscriptions": []string{"*"}}), "id")
	return l, errors.Join(faults...)
}

// sendDuring calls action and sends requests until action returns. It returns the error
// of action.
func (l *load) sendDuring(ctx context.Context, action func(context.Context) error) error {
	var group sync.WaitGroup
	var over atomic.Bool
	for range workers {
		group.Go(func() {
			for !over.Load() && ctx.Err() == nil {
				l.round(ctx)
			}
		})
	}
	err := action(ctx)
	over.Store(true)
	group.Wait()
	return err
}

// round sends a click, a sale, a decision about the commission of the sale, another write
// request and a few GET requests. The write request and the GET requests are different in
// each round.
func (l *load) round(ctx context.Context) {
	n := int(l.counter.Add(1))
	order := fmt.Sprintf("order-%d", n)
	program := "/programs/" + l.id("programId")
	report := object{"event_type": "purchase", "external_transaction_id": order, "amount_cents": 10000, "currency": "EUR"}
	click := l.call(ctx, http.MethodPost, clicksPath, "", object{"public_key": l.publicKey, "referral_code": referralCode, "url": "https://shop.example.com/"})
	clickID, _ := click["click_id"].(string)
	if clickID != "" {
		l.clicks.Add(1)
	}
	if n%2 == 0 && clickID != "" {
		report["click_id"] = clickID
	} else {
		report["promo_code"] = promoCode
	}
	sale := l.call(ctx, http.MethodPost, "/conversions", l.secretKey, report)
	l.storeID("conversionId", sale)
	if id, _ := sale["id"].(string); id != "" {
		l.mu.Lock()
		l.orders = append(l.orders, order)
		l.mu.Unlock()
	}
	commission, _ := sale["commission"].(object)
	if id, _ := commission["id"].(string); id != "" {
		l.set("commissionId", id)
		if n%3 == 0 {
			l.call(ctx, http.MethodPatch, program+"/commissions/"+id+"/reject", l.merchant, object{"reason": "A test."})
		} else {
			l.call(ctx, http.MethodPatch, program+"/commissions/"+id+"/approve", l.merchant, nil)
		}
	}
	type change struct {
		method, path, credential string
		body                     object
		id                       string
	}
	changes := []change{
		{http.MethodPost, "/conversions/refunds", l.secretKey, object{"external_transaction_id": order, "external_refund_id": order, "amount_cents": 100}, ""},
		{http.MethodPost, "/partner/links", l.partner, object{"programId": l.id("programId"), "destinationUrl": "https://shop.example.com/" + order}, "linkId"},
		{http.MethodPatch, program, l.merchant, object{"name": order}, ""},
		{http.MethodPatch, program, l.merchant, object{"commissionRules": object{"percentage": 1 + n%50}}, ""},
		{http.MethodPatch, program + "/partners/" + l.id("participantId"), l.merchant, object{"note": order}, ""},
		{http.MethodPost, program + "/groups", l.merchant, object{"name": order, "percentage": 30}, "groupId"},
		{http.MethodPost, program + "/promo-codes", l.merchant, object{
			"participantId": l.id("participantId"), "code": order, "discountType": "percentage", "discountValue": 10,
		}, ""},
		{http.MethodPost, program + "/partners/" + l.id("participantId") + "/ledger", l.merchant, object{"type": "bonus", "amountCents": 100, "reason": order}, ""},
		{http.MethodPost, "/conversions/batch", l.secretKey, object{"conversions": []object{{
			"event_type": "purchase", "external_transaction_id": order + "-batch", "amount_cents": 10000, "currency": "EUR", "promo_code": promoCode,
		}}}, ""},
		{http.MethodPost, "/payouts/preview", l.merchant, object{}, ""},
		{http.MethodPost, "/payouts/batches", l.merchant, object{}, "batchId"},
		{http.MethodPost, "/workspace/invites", l.merchant, object{"email": order + "@example.com", "role": "viewer"}, "inviteId"},
		{http.MethodPost, "/webhooks/" + l.id("webhookId") + "/test-ping", l.merchant, object{}, ""},
		{http.MethodPost, "/auth/partner/register", "", object{"email": order + "@example.com", "password": password, "name": "Pat", "country": "DE"}, ""},
		{http.MethodPost, "/auth/merchant/login", "", object{"email": "merchant@example.com", "password": password}, ""},
	}
	c := changes[n%len(changes)]
	l.storeID(c.id, l.call(ctx, c.method, c.path, c.credential, c.body))
	const readsPerRound = 4
	for i := range readsPerRound {
		path := l.fillParameters(l.readPaths[(n*readsPerRound+i)%len(l.readPaths)])
		credential := l.merchant
		switch {
		case strings.HasPrefix(path, "/partner/"):
			credential = l.partner
		case strings.HasSuffix(path, "/attribution"):
		case strings.HasPrefix(path, "/conversions"), strings.HasPrefix(path, "/attribution"):
			credential = l.secretKey
		}
		l.call(ctx, http.MethodGet, path, credential, nil)
	}
}

// call sends a request and counts its status. It returns the response if the response is
// a JSON object. The request has failed if the status is 500 or more, or if there is no
// response.
func (l *load) call(ctx context.Context, method, path, credential string, body object) object {
	status, response, err := l.request(ctx, method, path, credential, body)
	if ctx.Err() != nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.statuses[status]++
	if method != http.MethodGet {
		kind := method + " " + idPattern.ReplaceAllString(path, "{id}")
		count := l.writes[kind]
		count.sent++
		if err == nil && status < http.StatusBadRequest {
			count.succeeded++
		}
		l.writes[kind] = count
	}
	if err != nil || status >= http.StatusInternalServerError {
		l.failed++
		if len(l.failures) < failuresShown {
			l.failures = append(l.failures, fmt.Sprintf("%s %s: %d %s %v", method, path, status, bytes.TrimSpace(response), err))
		}
	}
	var read object
	if json.Unmarshal(response, &read) != nil {
		return nil // the response is a list, a file or empty
	}
	return read
}

// request sends a request. It returns the status and the body; the status is 0 if there
// was no response.
func (l *load) request(ctx context.Context, method, path, credential string, body object) (int, []byte, error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return 0, nil, err
		}
	}
	url := "http://" + l.gateway + "/api/v1" + path
	if path == clicksPath {
		url = "http://" + l.collector + path
	}
	request, err := http.NewRequestWithContext(ctx, method, url, &sent)
	if err != nil {
		return 0, nil, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if strings.HasSuffix(path, "/payouts/batches") {
		request.Header.Set("Idempotency-Key", uuid.NewString())
	}
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	response, err := l.client.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response.StatusCode, nil, nil // an event stream has no end
	}
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, text, err
}

var idPattern = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

var parameter = regexp.MustCompile(`\{(\w+)\}`)

// fillParameters replaces the parameters of a path by ids from earlier responses. If no
// response contained an id for a parameter, it uses a random id.
func (l *load) fillParameters(path string) string {
	return parameter.ReplaceAllStringFunc(path, func(name string) string {
		if id := l.id(name[1 : len(name)-1]); id != "" {
			return id
		}
		return uuid.NewString()
	})
}

// acknowledgedSales returns the external ids of all sales whose report was successful.
func (l *load) acknowledgedSales() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.orders)
}

func (l *load) id(name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ids[name]
}

func (l *load) set(name, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ids[name] = id
}

// storeID stores the id of the object in a response as the value of a path parameter.
func (l *load) storeID(name string, response object) {
	if id, _ := response["id"].(string); id != "" && name != "" {
		l.set(name, id)
	}
}

// verdict prints the number of responses by status. It returns an error if a request
// failed, or if a kind of request never succeeded. A response with a status from 400 to
// 499 is not a failure. But a kind of request that gets only such responses tests
// nothing.
func (l *load) verdict() error {
	for _, status := range slices.Sorted(maps.Keys(l.statuses)) {
		say("%6d × %d", l.statuses[status], status)
	}
	if l.failed > 0 {
		return fmt.Errorf("%d requests failed, for example:\n%s", l.failed, strings.Join(l.failures, "\n"))
	}
	var unsuccessful []string
	for kind, count := range l.writes {
		if count.succeeded == 0 {
			unsuccessful = append(unsuccessful, kind)
		}
	}
	if len(unsuccessful) > 0 {
		slices.Sort(unsuccessful)
		return fmt.Errorf("these requests never succeeded: %s; all requests: %+v", strings.Join(unsuccessful, ", "), l.writes)
	}
	if l.clicks.Load() == 0 || l.statuses[http.StatusOK] == 0 {
		return fmt.Errorf("the load had no successful clicks or requests: %v", l.statuses)
	}
	return nil
}
