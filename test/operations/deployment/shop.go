//go:build operations

package deployment

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/test/service"
)

// Object is the body of a request.
type Object = map[string]any

// Password is the password of all accounts.
const Password = "a long enough password"

// Shop is a merchant with one active programme.
type Shop struct {
	api                             service.API
	Token, SecretKey, PublicKey, ID string // ID is the id of the programme
}

// Partner is a partner who takes part in the programme of a shop.
type Partner struct{ Email, Name, Token, Participant, Code, Promo string }

// Call sends a request and fails the test if the response is an error.
func Call(t testing.TB, api service.API, method, path, credential string, body Object, out any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if err := api.Call(ctx, method, path, credential, body, out); err != nil {
		t.Fatal(err)
	}
}

type response struct{ ID, AccessToken, SecretKey, PublicKey, ReferralCode string }

// OpenShop registers a merchant and creates an active programme without a hold period.
func OpenShop(t testing.TB, api service.API) *Shop {
	t.Helper()
	s := &Shop{api: api}
	var r response
	Call(t, api, http.MethodPost, "/auth/merchant/register", "", Object{
		"email": "mia@shop.example", "password": Password, "name": "Mia", "workspaceName": "Shop",
	}, &r)
	s.Token = r.AccessToken
	s.call(t, http.MethodPost, "/api-keys", Object{"name": "Server"}, &r)
	s.SecretKey = r.SecretKey
	s.call(t, http.MethodGet, "/api-keys", nil, &r)
	s.PublicKey = r.PublicKey
	s.call(t, http.MethodPost, "/programs", Object{
		"name": "Spring", "slug": "spring", "websiteUrl": "https://shop.example.com", "currency": "EUR",
		"commissionRules": Object{"commissionType": "percentage", "percentage": 30, "holdPeriodDays": 0, "autoApproval": false},
	}, &r)
	s.ID = r.ID
	s.call(t, http.MethodPut, s.program("/fraud-policy"), Object{"policy": "off"}, &r)
	s.call(t, http.MethodPost, s.program("/activate"), nil, &r)
	return s
}

func (s *Shop) program(path string) string { return "/programs/" + s.ID + path }

// call sends a request of the merchant.
func (s *Shop) call(t testing.TB, method, path string, body Object, out any) {
	t.Helper()
	Call(t, s.api, method, path, s.Token, body, out)
}

// Join registers a partner, who gets a referral code, a promo code and a payout account.
func (s *Shop) Join(t testing.TB, name string) *Partner {
	t.Helper()
	p := &Partner{Email: name + "@blog.example", Name: name, Code: name, Promo: strings.ToUpper("save-" + name)}
	var r response
	Call(t, s.api, http.MethodPost, "/auth/partner/register", "", Object{"email": p.Email, "password": Password, "name": name, "country": "DE"}, &r)
	p.Token = r.AccessToken
	Call(t, s.api, http.MethodPost, "/partner"+s.program("/apply"), p.Token, Object{"acceptTerms": true, "referralCode": p.Code}, &r)
	p.Participant = r.ID
	s.call(t, http.MethodPatch, s.program("/partners/"+p.Participant+"/approve"), Object{}, &r)
	s.call(t, http.MethodPost, s.program("/promo-codes"), Object{
		"participantId": p.Participant, "code": p.Promo, "discountType": "percentage", "discountValue": 10,
	}, &r)
	Call(t, s.api, http.MethodPatch, "/partner/payout-method", p.Token, Object{"method": "paypal", "account": p.Email, "password": Password}, &r)
	return p
}

// ProcessBatch approves a commission and creates a batch of payouts, which it processes. It
// returns the id of the batch.
func (s *Shop) ProcessBatch(t testing.TB, commission string) string {
	t.Helper()
	var r response
	s.call(t, http.MethodPatch, s.program("/commissions/"+commission+"/approve"), nil, &r)
	s.call(t, http.MethodPost, "/payouts/batches", Object{}, &r)
	batch := r.ID
	s.call(t, http.MethodPost, "/payouts/batches/"+batch+"/confirm", nil, &r)
	s.call(t, http.MethodPost, "/payouts/batches/"+batch+"/process", nil, &r)
	return batch
}

// Pay approves a commission and pays its partner. It returns the id of the payout.
func (s *Shop) Pay(t testing.TB, commission string) string {
	t.Helper()
	var payouts struct{ Data []response }
	s.call(t, http.MethodGet, "/payouts?batchId="+s.ProcessBatch(t, commission), nil, &payouts)
	if len(payouts.Data) != 1 {
		t.Fatalf("the batch has %d payouts, want 1", len(payouts.Data))
	}
	s.call(t, http.MethodPatch, "/payouts/"+payouts.Data[0].ID+"/mark-paid", Object{"reference": "transfer-1"}, &response{})
	return payouts.Data[0].ID
}

// Sale is an acknowledged conversion.
type Sale struct {
	ID         string
	Attributed bool
	Commission struct{ ID string }
}

// Sell reports a sale with the promo code of a partner, or with the id of a click.
func (s *Shop) Sell(ctx context.Context, order, promo, click string) (sale Sale, err error) {
	report := Object{"event_type": "purchase", "external_transaction_id": order, "amount_cents": 10000, "currency": "EUR", "customer_id": "customer-of-" + order}
	if click != "" {
		report["click_id"] = click
	} else {
		report["promo_code"] = promo
	}
	err = s.api.Call(ctx, http.MethodPost, "/conversions", s.SecretKey, report, &sale)
	return sale, err
}

// MustSell is like Sell and fails the test on an error.
func (s *Shop) MustSell(t testing.TB, order string, p *Partner) Sale {
	t.Helper()
	sale, err := s.Sell(t.Context(), order, p.Promo, "")
	if err != nil {
		t.Fatal(err)
	}
	if !sale.Attributed {
		t.Errorf("the sale %s is not attributed to %s", order, p.Name)
	}
	return sale
}

// Click sends a click to a collector. It returns the status and the id of the click.
func (s *Shop) Click(ctx context.Context, collector, code string) (status int, id string, err error) {
	body, err := json.Marshal(Object{"public_key": s.PublicKey, "referral_code": code, "url": "https://shop.example.com/"})
	if err != nil {
		return 0, "", err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+collector+"/v1/clicks", bytes.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	request.Header.Set("Content-Type", "application/json")
	reply, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = reply.Body.Close() }()
	text, err := io.ReadAll(reply.Body)
	if err != nil || reply.StatusCode >= http.StatusBadRequest {
		return reply.StatusCode, "", err
	}
	var click struct {
		ID string `json:"click_id"`
	}
	err = json.Unmarshal(text, &click)
	return reply.StatusCode, click.ID, err
}

// AwaitCode waits until the collector accepts a click with the code, which is in the edge
// directory some time after a change. It returns the id of the click.
func (s *Shop) AwaitCode(t testing.TB, collector, code string) (click string) {
	t.Helper()
	Await(t, "the code "+code+" is in the edge directory", func() error {
		status, id, err := s.Click(t.Context(), collector, code)
		if err == nil && id == "" {
			err = fmt.Errorf("a click returns %d", status)
		}
		click = id
		return err
	})
	return click
}
