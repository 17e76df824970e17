// Package shop uses the service as a merchant does: it opens a programme with partners,
// sends clicks, reports conversions and pays commissions.
package shop

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

	"github.com/google/uuid"

	"github.com/tributary-hq/tributary/test/operations/process"
)

// Password is the password of all accounts.
const Password = "a long enough password"

// browser is the user agent of clicks. Without it, a click counts as a bot's.
const browser = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"

// Object is the body of a request.
type Object = map[string]any

// Shop is a merchant with one active programme, in live mode. Its commissions are 30 % and
// have no hold period.
type Shop struct {
	API, Collector string // base URLs
	// Token is an access token of the merchant. It is valid for 15 minutes.
	Token                           string
	SecretKey, PublicKey, ProgramID string

	client *http.Client
}

// Partner is a partner who takes part in the programme of a shop.
type Partner struct{ Email, Name, Token, Participant, Code, Promo string }

type response struct{ ID, AccessToken, SecretKey, PublicKey string }

// Open registers a merchant and activates a programme. api and collector are base URLs.
func Open(t testing.TB, client *http.Client, api, collector string) *Shop {
	t.Helper()
	s := &Shop{API: api, Collector: collector, client: client}
	name := "shop-" + uuid.NewString()[:8]
	s.Token = s.must(t, http.MethodPost, "/auth/merchant/register", "", Object{
		"email": name + "@shop.example", "password": Password, "name": "Mia", "workspaceName": "Shop",
	}).AccessToken
	s.SecretKey = s.must(t, http.MethodPost, "/api-keys", s.Token, Object{"name": "Server"}).SecretKey
	s.PublicKey = s.must(t, http.MethodGet, "/api-keys", s.Token, nil).PublicKey
	s.ProgramID = s.must(t, http.MethodPost, "/programs", s.Token, Object{
		"name": "Spring", "slug": name, "websiteUrl": "https://shop.example.com", "isPublic": true, "currency": "EUR",
		"commissionRules": Object{"commissionType": "percentage", "percentage": 30, "holdPeriodDays": 0, "autoApproval": false},
	}).ID
	s.must(t, http.MethodPut, s.program("/fraud-policy"), s.Token, Object{"policy": "off"})
	s.must(t, http.MethodPost, s.program("/activate"), s.Token, nil)
	return s
}

func (s *Shop) program(path string) string { return "/programs/" + s.ProgramID + path }

// Join registers a partner, who gets a referral code, a promo code and a payout account.
func (s *Shop) Join(t testing.TB, name string) *Partner {
	t.Helper()
	p := &Partner{Email: name + "-" + uuid.NewString()[:8] + "@blog.example", Name: name, Code: name, Promo: strings.ToUpper("save-" + name)}
	p.Token = s.must(t, http.MethodPost, "/auth/partner/register", "", Object{"email": p.Email, "password": Password, "name": name, "country": "DE"}).AccessToken
	p.Participant = s.must(t, http.MethodPost, "/partner"+s.program("/apply"), p.Token, Object{"acceptTerms": true, "referralCode": p.Code}).ID
	s.must(t, http.MethodPatch, s.program("/partners/"+p.Participant+"/approve"), s.Token, Object{})
	s.must(t, http.MethodPost, s.program("/promo-codes"), s.Token, Object{
		"participantId": p.Participant, "code": p.Promo, "discountType": "percentage", "discountValue": 10,
	})
	s.must(t, http.MethodPatch, "/partner/payout-method", p.Token, Object{"method": "paypal", "account": p.Email, "password": Password})
	return p
}

// ProcessBatch approves a commission and creates a batch of payouts, which it processes. It
// returns the id of the batch.
func (s *Shop) ProcessBatch(t testing.TB, commission string) string {
	t.Helper()
	s.must(t, http.MethodPatch, s.program("/commissions/"+commission+"/approve"), s.Token, nil)
	batch := s.must(t, http.MethodPost, "/payouts/batches", s.Token, Object{}).ID
	s.must(t, http.MethodPost, "/payouts/batches/"+batch+"/confirm", s.Token, nil)
	s.must(t, http.MethodPost, "/payouts/batches/"+batch+"/process", s.Token, nil)
	return batch
}

// Pay approves a commission and pays its partner. It returns the id of the payout.
func (s *Shop) Pay(t testing.TB, commission string) string {
	t.Helper()
	var payouts struct{ Data []response }
	s.Must(t, http.MethodGet, "/payouts?batchId="+s.ProcessBatch(t, commission), s.Token, nil, &payouts)
	if len(payouts.Data) != 1 {
		t.Fatalf("the batch has %d payouts, want 1", len(payouts.Data))
	}
	s.must(t, http.MethodPatch, "/payouts/"+payouts.Data[0].ID+"/mark-paid", s.Token, Object{"reference": "transfer-1"})
	return payouts.Data[0].ID
}

// Sale is an acknowledged conversion.
type Sale struct {
	ID         string
	Attributed bool
	Commission struct{ ID string }
}

// Sell reports a sale of 100 euros with the promo code of a partner, or with the id of a
// click. It returns the status as Call does.
func (s *Shop) Sell(ctx context.Context, order, promo, click string) (status int, sale Sale, err error) {
	report := Object{"event_type": "purchase", "external_transaction_id": order, "amount_cents": 10000, "currency": "EUR", "customer_id": "customer-of-" + order}
	if click != "" {
		report["click_id"] = click
	} else {
		report["promo_code"] = promo
	}
	status, err = s.Call(ctx, http.MethodPost, "/conversions", s.SecretKey, report, &sale)
	return status, sale, err
}

// MustSell reports a sale with the promo code of a partner. The test fails if it is not
// attributed.
func (s *Shop) MustSell(t testing.TB, order string, p *Partner) Sale {
	t.Helper()
	_, sale, err := s.Sell(t.Context(), order, p.Promo, "")
	if err != nil {
		t.Fatal(err)
	}
	if !sale.Attributed {
		t.Errorf("the sale %s is not attributed to %s", order, p.Name)
	}
	return sale
}

// Click sends a click to the collector. It returns the status as Call does, and the id of
// the click.
func (s *Shop) Click(ctx context.Context, code string) (status int, id string, err error) {
	var click struct {
		ID string `json:"click_id"`
	}
	status, err = s.call(ctx, http.MethodPost, s.Collector+"/v1/clicks", s.PublicKey, Object{"referral_code": code, "url": "https://shop.example.com/"}, &click)
	return status, click.ID, err
}

// AwaitCode waits until the collector accepts a click with the code, which is in the edge
// directory some time after a change. It returns the id of the click.
func (s *Shop) AwaitCode(t testing.TB, code string) (click string) {
	t.Helper()
	process.Await(t, "the code "+code+" is in the edge directory", func() error {
		var err error
		_, click, err = s.Click(t.Context(), code)
		return err
	})
	return click
}

// must sends a request to the API. The test fails if the response is an error.
func (s *Shop) must(t testing.TB, method, path, credential string, body Object) (out response) {
	t.Helper()
	s.Must(t, method, path, credential, body, &out)
	return out
}

// Must is like Call. The test fails if the response is an error.
func (s *Shop) Must(t testing.TB, method, path, credential string, body Object, out any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
	defer cancel()
	if _, err := s.Call(ctx, method, path, credential, body, out); err != nil {
		t.Fatal(err)
	}
}

// Call sends a request to /api/v1 + path and decodes the JSON object of the response. A
// status of 400 or more is an error. The status is 0 if there is no response.
func (s *Shop) Call(ctx context.Context, method, path, credential string, body Object, out any) (status int, err error) {
	return s.call(ctx, method, s.API+"/api/v1"+path, credential, body, out)
}

func (s *Shop) call(ctx context.Context, method, url, credential string, body Object, out any) (status int, err error) {
	var sent bytes.Buffer
	if body != nil {
		if err := json.NewEncoder(&sent).Encode(body); err != nil {
			return 0, err
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, url, &sent)
	if err != nil {
		return 0, err
	}
	request.Header.Set("User-Agent", browser)
	if strings.HasSuffix(url, "/payouts/batches") || strings.HasSuffix(url, "/buyer-erasure") {
		request.Header.Set("Idempotency-Key", uuid.NewString())
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if credential != "" {
		request.Header.Set("Authorization", "Bearer "+credential)
	}
	answer, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	switch {
	case err != nil:
		return 0, err
	case answer.StatusCode >= http.StatusBadRequest:
		return answer.StatusCode, fmt.Errorf("%s %s: %d %s", method, url, answer.StatusCode, text)
	case len(bytes.TrimSpace(text)) == 0:
		return answer.StatusCode, nil
	}
	return answer.StatusCode, json.Unmarshal(text, out)
}
