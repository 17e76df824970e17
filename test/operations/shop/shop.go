// Package shop uses the service as a merchant does: it opens a programme with a partner,
// sends clicks, and reports conversions.
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

	"github.com/google/uuid"
)

// password is the password of the merchant.
const password = "a long enough password"

// browser is the user agent of clicks. Without it, a click counts as a bot's.
const browser = "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0"

type object = map[string]any

// Shop is a merchant with an active programme and one partner, in test mode. API and
// Collector are base URLs.
type Shop struct {
	API, Collector string
	ReferralCode   string
	// Token is an access token of the merchant. It is valid for 15 minutes.
	Token string

	PublicKey, SecretKey, ProgramID string
	// PromoCode is a code of the partner. It is empty without payouts.
	PromoCode string

	client *http.Client
}

// Open creates a merchant with everything that clicks and conversions need.
func Open(t *testing.T, client *http.Client, api, collector string) *Shop {
	t.Helper()
	s := &Shop{API: api, Collector: collector, ReferralCode: "ref-" + uuid.NewString()[:8], client: client}
	step := func(method, path string, body object) object {
		t.Helper()
		status, response, err := s.Call(t.Context(), method, api+"/api/v1"+path, s.Token, body)
		if err != nil || status >= http.StatusBadRequest {
			t.Fatalf("%s %s: %d %v %v", method, path, status, response, err)
		}
		return response
	}
	text := func(response object, key string) string { value, _ := response[key].(string); return value }
	s.Token = text(step(http.MethodPost, "/auth/merchant/register", object{
		"email": s.ReferralCode + "@example.com", "password": password, "name": "Mia", "workspaceName": "Shop",
	}), "accessToken")
	s.SecretKey = text(step(http.MethodPost, "/api-keys", object{"name": "Server"}), "secretKey")
	s.PublicKey = text(step(http.MethodGet, "/api-keys", nil), "publicKey")
	s.ProgramID = text(step(http.MethodPost, "/programs", object{
		"name": "Spring", "slug": s.ReferralCode, "websiteUrl": "https://shop.example.com", "currency": "EUR",
		"commissionRules": object{"commissionType": "percentage", "percentage": 20, "holdPeriodDays": 0, "autoApproval": false},
	}), "id")
	step(http.MethodPut, "/programs/"+s.ProgramID+"/fraud-policy", object{"policy": "off"})
	step(http.MethodPost, "/programs/"+s.ProgramID+"/activate", nil)
	step(http.MethodPost, "/programs/"+s.ProgramID+"/partners", object{
		"email": "partner-" + s.ReferralCode + "@example.com", "name": "Pat", "referralCode": s.ReferralCode, "sendInvite": false,
	})
	return s
}

// OpenWithPayouts creates a merchant as Open does, and gives the partner a promo code and an
// account for payouts.
func OpenWithPayouts(t *testing.T, client *http.Client, api, collector string) *Shop {
	t.Helper()
	s := Open(t, client, api, collector)
	step := func(method, path, credential string, body object) object {
		t.Helper()
		status, response, err := s.Call(t.Context(), method, api+"/api/v1"+path, credential, body)
		if err != nil || status >= http.StatusBadRequest {
			t.Fatalf("%s %s: %d %v %v", method, path, status, response, err)
		}
		return response
	}
	text := func(response object, key string) string { value, _ := response[key].(string); return value }
	partner := text(step(http.MethodPost, "/auth/partner/register", "", object{
		"email": "payee-" + s.ReferralCode + "@example.com", "password": password, "name": "Pia", "country": "DE",
	}), "accessToken")
	program := "/programs/" + s.ProgramID
	participant := text(step(http.MethodPost, "/partner"+program+"/apply", partner, object{"acceptTerms": true, "referralCode": "pay-" + s.ReferralCode}), "id")
	step(http.MethodPatch, program+"/partners/"+participant+"/approve", s.Token, object{})
	step(http.MethodPatch, "/partner/payout-method", partner, object{"method": "paypal", "account": "pia@example.com", "password": password})
	s.PromoCode = "PAY" + strings.ToUpper(s.ReferralCode[len("ref-"):])
	step(http.MethodPost, program+"/promo-codes", s.Token, object{
		"participantId": participant, "code": s.PromoCode, "discountType": "percentage", "discountValue": 10,
	})
	return s
}

// Click sends a click of the partner. It returns the status of the response, 0 if there is
// none, and the id of the click.
func (s *Shop) Click(ctx context.Context) (status int, id string, err error) {
	status, response, err := s.Call(ctx, http.MethodPost, s.Collector+"/v1/clicks", s.PublicKey, object{
		"referral_code": s.ReferralCode, "url": "https://shop.example.com/",
	})
	id, _ = response["click_id"].(string)
	return status, id, err
}

// Convert reports a sale of 100 euros after a click. It returns the status of the response,
// or 0 if there is none.
func (s *Shop) Convert(ctx context.Context, order, clickID string) (status int, response map[string]any, err error) {
	return s.Call(ctx, http.MethodPost, s.API+"/api/v1/conversions", s.SecretKey, object{
		"event_type": "purchase", "external_transaction_id": order, "amount_cents": 10000, "currency": "EUR", "click_id": clickID,
	})
}

// Call sends a request in test mode and decodes the JSON object of the response. The status
// is 0 if there is no response.
func (s *Shop) Call(ctx context.Context, method, url, credential string, body map[string]any) (status int, response map[string]any, err error) {
	var sent io.Reader = http.NoBody
	if body != nil {
		encoded, err := json.Marshal(body)
		if err != nil {
			return 0, nil, err
		}
		sent = bytes.NewReader(encoded)
	}
	request, err := http.NewRequestWithContext(ctx, method, url, sent)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("User-Agent", browser)
	request.Header.Set("X-Mode", "test")
	if method == http.MethodPost {
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
		return 0, nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, nil, err
	}
	if len(bytes.TrimSpace(text)) == 0 || !strings.HasPrefix(answer.Header.Get("Content-Type"), "application/json") {
		return answer.StatusCode, nil, nil
	}
	if err := json.Unmarshal(text, &response); err != nil {
		return answer.StatusCode, nil, fmt.Errorf("%s %s: %w", method, url, err)
	}
	return answer.StatusCode, response, nil
}
