package main

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/httpedge"
)

// serveShop serves the shop until ctx ends.
func serveShop(ctx context.Context, listener net.Listener, site http.Handler, log *slog.Logger) error {
	server := httpedge.NewServer(site, log)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // nobody waits for a demo page
	defer stop()
	return httpedge.Serve(server, listener, nil)
}

// shopPage is the merchant's page: the browser script, a product, and what its
// server says after a purchase.
//
//go:embed shop.html
var shopPage string

var shopTemplate = template.Must(template.New("shop").Funcs(template.FuncMap{"price": price}).Parse(shopPage))

// shop is a merchant's website with the demo's keys: the page loads the browser
// script, and the server reports a purchase with the click that the script left in
// the cookie. It shows what a merchant has to write, and nothing else.
type shop struct {
	api       caller
	collector string

	mu sync.RWMutex
	// values are the demo's variables; nil until the demo is seeded.
	values map[string]string
}

// open lets visitors in.
func (s *shop) open(values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = values
}

func (s *shop) value(name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.values[name]
}

// What the demo's product costs.
const (
	shopCents    = 4900
	shopCurrency = "USD"
)

// reported is the part of a recorded conversion that the shop shows.
type reported struct {
	Attributed  bool `json:"attributed"`
	Attribution struct {
		Explanation string `json:"explanation"`
	} `json:"attribution"`
	Commission *struct {
		AmountCents int64  `json:"amount_cents"`
		Currency    string `json:"currency"`
		Status      string `json:"status"`
	} `json:"commission"`
}

// ServeHTTP answers the page and, at /buy, the purchase.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case s.value(referralCodeName) == "":
		http.Error(w, "The demo is being prepared.", http.StatusServiceUnavailable)
	case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		s.page(w, nil, "")
	case r.URL.Path == "/buy" && r.Method == http.MethodPost:
		s.buy(w, r)
	default:
		http.NotFound(w, r)
	}
}

// buy is what a merchant's server does after a payment.
func (s *shop) buy(w http.ResponseWriter, r *http.Request) {
	order := map[string]any{
		"event_type":              "purchase",
		"external_transaction_id": "order-" + uuid.NewString(),
		"amount_cents":            shopCents,
		"currency":                shopCurrency,
	}
	if cookie, err := r.Cookie("aff_click_id"); err == nil {
		order["click_id"] = cookie.Value
	}
	var got reported
	server := s.api.as(s.value(secretKeyName(demoModes[0])))
	err := server.call(r.Context(), http.MethodPost, "/api/v1/conversions", order, &got)
	switch {
	case refused(err, "NO_ATTRIBUTION_SIGNAL"):
		s.page(w, nil, "Sold. No partner brought this visitor, so there was nothing to report.")
	case err != nil:
		w.WriteHeader(http.StatusBadGateway)
		s.page(w, nil, "Sold, and not reported: "+err.Error())
	default:
		s.page(w, &got, "")
	}
}

func (s *shop) page(w http.ResponseWriter, sold *reported, note string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	// An error here is the visitor's connection.
	_ = shopTemplate.Execute(w, map[string]any{
		"Script": s.collector + "/v1/script.js",
		"Key":    s.value(publicKeyName(demoModes[0])),
		"Link":   "/?" + url.Values{"via": {s.value(referralCodeName)}}.Encode(),
		"Price":  price(shopCents, shopCurrency),
		"Sold":   sold,
		"Note":   note,
	})
}

// price prints an amount of a currency with two decimals.
func price(cents int64, currency string) string {
	return fmt.Sprintf("%d.%02d %s", cents/100, cents%100, currency)
}
