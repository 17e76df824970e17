package main

import (
	"context"
	_ "embed"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"time"
)

// conversionTimeout is the maximum time that the shop waits for the conversion of a sale that
// Stripe reports.
const conversionTimeout = 10 * time.Second

// payPage is the template of the page that replaces buy.stripe.com.
//
//go:embed pay.html
var payPage string

var payTemplate = template.Must(template.New("pay").Parse(payPage))

// paymentLink returns the address of the Payment Link in the shop's page, and its host
// without the port. The host differs from the host of the shop, as buy.stripe.com does, so
// that the browser script distinguishes the Payment Link from the shop's own links. The link
// is empty if the demo is not connected to the stand-in for Stripe.
func (s *shop) paymentLink(r *http.Request) (link, host string) {
	if s.value(stripeSecretName) == "" {
		return "", ""
	}
	u := url.URL{Scheme: "http", Host: otherName(r.Host), Path: "/pay"}
	return u.String(), u.Hostname()
}

// otherName replaces 127.0.0.1 by localhost in a host with a port, and localhost by 127.0.0.1.
// It returns any other host unchanged.
func otherName(host string) string {
	name, port, err := net.SplitHostPort(host)
	other, known := map[string]string{"127.0.0.1": "localhost", "localhost": "127.0.0.1"}[name]
	if err != nil || !known {
		return host
	}
	return net.JoinHostPort(other, port)
}

// writePayPage writes the page of the Payment Link.
func (s *shop) writePayPage(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	// An error means that the visitor's connection has ended.
	_ = payTemplate.Execute(w, map[string]any{
		"Price":     price(shopCents, shopCurrency),
		"Reference": r.URL.Query().Get("client_reference_id"),
	})
}

// pay completes the payment: Stripe sends an event to the service and redirects the buyer to
// the shop.
func (s *shop) pay(w http.ResponseWriter, r *http.Request) {
	s.mu.RLock()
	account, connected := stripeAccountOf(s.values, s.api.url)
	s.mu.RUnlock()
	if !connected {
		http.NotFound(w, r)
		return
	}
	event, err := account.send(r.Context(), stripeTrigger{
		Type: "checkout.session.completed", Click: r.PostFormValue("client_reference_id"),
		Amount: shopCents, Currency: defaultStripeCurrency,
	})
	if err != nil {
		http.Error(w, "The payment failed: "+err.Error(), http.StatusBadGateway)
		return
	}
	shop := url.URL{
		Scheme: "http", Host: otherName(r.Host), Path: "/",
		RawQuery: url.Values{"payment_intent": {event.Sale}}.Encode(),
	}
	http.Redirect(w, r, shop.String(), http.StatusSeeOther)
}

// showPayment writes the shop's page with the conversion of a payment at Stripe. The
// conversion exists when the service has applied Stripe's event.
func (s *shop) showPayment(w http.ResponseWriter, r *http.Request, payment string) {
	conversion, err := s.conversionOf(r.Context(), payment)
	switch {
	case err != nil:
		w.WriteHeader(http.StatusBadGateway)
		s.writePage(w, r, nil, "The conversion could not be read: "+err.Error())
	case conversion == nil:
		s.writePage(w, r, nil, "Sold. Stripe's event is not applied yet: reload this page.")
	default:
		s.writePage(w, r, conversion, "")
	}
}

// conversionOf waits until the conversion of a sale is recorded. It returns nil if that takes
// too long.
func (s *shop) conversionOf(ctx context.Context, sale string) (*recordedConversion, error) {
	server := s.api.withCredential(s.value(secretKeyName(demoModes[0])))
	for deadline := time.Now().Add(conversionTimeout); ; {
		var list struct {
			Data []recordedConversion `json:"data"`
		}
		path := "/api/v1/conversions?" + url.Values{"external_transaction_id": {sale}}.Encode()
		if err := server.call(ctx, http.MethodGet, path, nil, &list); err != nil {
			return nil, err
		}
		if len(list.Data) > 0 {
			return &list.Data[0], nil
		}
		if time.Now().After(deadline) {
			return nil, nil //nolint:nilnil // the conversion does not exist yet
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
