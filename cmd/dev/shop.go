package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"html/template"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"sync"

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge"
)

// serveSite serves the demo shop or the page of the mail sink until ctx ends.
func serveSite(ctx context.Context, listener net.Listener, site http.Handler, log *slog.Logger) error {
	server := httpedge.NewServer(site, log)
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // the requests need not complete
	defer stop()
	return httpedge.Serve(server, listener, nil)
}

// shopPage is the template of the shop's page. The page contains the browser script, a
// product, and the result of a purchase.
//
//go:embed shop.html
var shopPage string

var shopTemplate = template.Must(template.New("shop").Funcs(template.FuncMap{"price": price}).Parse(shopPage))

// shop is the website of the demo merchant. Its page loads the browser script. Its server
// reports a purchase with the click id from the cookie that the script has set. shop
// contains only code that every merchant would have to write.
type shop struct {
	api       apiClient
	collector string
	landing   string // base URL of the landing service

	mu sync.RWMutex
	// values holds the variables of .dev/env. It is nil until the demo data exists.
	values map[string]string
}

// setValues sets the variables of .dev/env. Until then the shop responds with 503.
func (s *shop) setValues(values map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.values = values
}

func (s *shop) value(name string) string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.values[name]
}

// The price of the demo's product.
const (
	shopCents    = 4900
	shopCurrency = "USD"
)

// recordedConversion holds the fields of a recorded conversion that the page shows.
type recordedConversion struct {
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

// ServeHTTP serves the shop's page at /, the purchase at /buy, the page that replaces
// buy.stripe.com at /pay, the page of a partner at /partner with its token at /partner/token,
// and the demo's landing page at /landing.
func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == landingPath && isRead(r):
		writeLandingPage(w, s.landing)
	case s.value(referralCodeName) == "":
		http.Error(w, "The demo is being prepared.", http.StatusServiceUnavailable)
	case r.URL.Path == "/" && isRead(r) && r.URL.Query().Has("payment_intent"):
		s.showPayment(w, r, r.URL.Query().Get("payment_intent"))
	case r.URL.Path == "/" && isRead(r):
		s.writePage(w, r, nil, "")
	case r.URL.Path == "/pay" && isRead(r):
		s.writePayPage(w, r)
	case r.URL.Path == "/pay" && r.Method == http.MethodPost:
		s.pay(w, r)
	case r.URL.Path == "/buy" && r.Method == http.MethodPost:
		s.buy(w, r)
	case r.URL.Path == "/partner" && isRead(r):
		s.writePartnerPage(w)
	case r.URL.Path == "/partner/token" && r.Method == http.MethodPost:
		s.writePartnerToken(w, r)
	default:
		http.NotFound(w, r)
	}
}

func isRead(r *http.Request) bool { return r.Method == http.MethodGet || r.Method == http.MethodHead }

// buy reports the purchase to the API, as the server of a merchant does after a payment.
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
	var got recordedConversion
	server := s.api.withCredential(s.value(secretKeyName(demoModes[0])))
	err := server.call(r.Context(), http.MethodPost, "/api/v1/conversions", order, &got)
	switch {
	case hasCode(err, "NO_ATTRIBUTION_SIGNAL"):
		s.writePage(w, r, nil, "Sold. No partner sent this visitor, so there is no commission.")
	case err != nil:
		w.WriteHeader(http.StatusBadGateway)
		s.writePage(w, r, nil, "Sold. The purchase could not be reported: "+err.Error())
	default:
		s.writePage(w, r, &got, "")
	}
}

func (s *shop) writePage(w http.ResponseWriter, r *http.Request, conversion *recordedConversion, note string) {
	link, checkout := s.paymentLink(r)
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	// An error means that the visitor's connection has ended.
	_ = shopTemplate.Execute(w, map[string]any{
		"Script":      s.collector + "/v1/script.js",
		"Key":         s.value(publicKeyName(demoModes[0])),
		"Link":        "/?" + url.Values{"via": {s.value(referralCodeName)}}.Encode(),
		"PaymentLink": link,
		"Checkout":    checkout,
		"Price":       price(shopCents, shopCurrency),
		"Sold":        conversion,
		"Note":        note,
	})
}

// price formats an amount in minor units of a currency.
func price(cents int64, currency string) string {
	return affiliate.FormatMoney(affiliate.Money{Cents: cents, Currency: currency})
}

// partnerExternalID is the id of the demo's partner in the shop's own database.
const partnerExternalID = "customer-1"

// partnerPage is the page of a partner in the merchant's own app. Its script reads the
// partner's link and earnings from the API.
//
//go:embed partner.html
var partnerPage string

var partnerTemplate = template.Must(template.New("partner").Parse(partnerPage))

func (s *shop) writePartnerPage(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	// An error means that the visitor's connection has ended.
	_ = partnerTemplate.Execute(w, map[string]any{
		"API": s.api.url + "/api/v1/partner", "Program": s.value(programIDName),
	})
}

// writePartnerToken responds with a token for the participation of the user that is logged in
// to the shop. The demo has one user, so there is no login. A real app must take the external
// id from the session of the user, and never from the request.
func (s *shop) writePartnerToken(w http.ResponseWriter, r *http.Request) {
	partners := "/api/v1/programs/" + url.PathEscape(s.value(programIDName)) + "/partners"
	server := s.api.withCredential(s.value(serviceTokenName))
	var found struct {
		Data []struct {
			ID string `json:"id"`
		} `json:"data"`
	}
	var token struct {
		Token     string `json:"token"`
		ExpiresAt string `json:"expiresAt"`
	}
	err := server.call(r.Context(), http.MethodGet, partners+"?"+url.Values{"externalId": {partnerExternalID}}.Encode(), nil, &found)
	if err == nil && len(found.Data) == 1 {
		err = server.call(r.Context(), http.MethodPost, partners+"/"+found.Data[0].ID+"/token", map[string]any{}, &token)
	}
	if err != nil || token.Token == "" {
		http.Error(w, "The shop cannot get a token for this partner.", http.StatusBadGateway)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(token)
}
