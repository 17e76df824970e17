package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/tributary-hq/tributary/test/service"
)

const (
	merchants = 2
	partners  = 2
	password  = "a long enough password"
)

// target is a participant: a partner in a merchant's programme.
type target struct {
	workspace, program, participant, link uuid.UUID
	// key is the public key of the merchant. code is the referral code of the partner.
	// shortPath is the path of a short link of the partner.
	key, code, shortPath string
	// secret is the secret key of the merchant. promo is a promo code of the partner.
	secret, promo string
	// merchant is the index of the merchant.
	merchant int
}

type object = map[string]any

// openShops creates merchants with one programme each, and partners who take part in all
// programmes. It uses the public API.
func openShops(ctx context.Context, api service.API, hooks *receiver) ([]target, error) {
	tokens := make([]string, partners)
	for n := range tokens {
		fields := object{"name": "Pat " + strconv.Itoa(n), "country": "DE"}
		var err error
		if tokens[n], err = register(ctx, api, "partner", n, fields); err != nil {
			return nil, err
		}
	}
	var targets []target
	for n := range merchants {
		shopTargets, err := openShop(ctx, api, hooks, n, tokens)
		if err != nil {
			return nil, err
		}
		targets = append(targets, shopTargets...)
	}
	return targets, nil
}

func openShop(ctx context.Context, api service.API, hooks *receiver, n int, partnerTokens []string) ([]target, error) {
	name := "Shop " + strconv.Itoa(n)
	token, err := register(ctx, api, "merchant", n, object{"name": "Mia", "workspaceName": name})
	if err != nil {
		return nil, err
	}
	if err := openEndpoints(ctx, api, hooks, n, token); err != nil {
		return nil, err
	}
	var created struct {
		ID, PublicKey, SecretKey, ShortURL, ReferralCode string
	}
	call := func(method, path, credential string, body object) {
		if err == nil {
			err = api.Call(ctx, method, path, credential, body, &created)
		}
	}
	call(http.MethodGet, "/api-keys", token, nil)
	key := created.PublicKey
	call(http.MethodPost, "/api-keys", token, object{"name": "Server"})
	secret := created.SecretKey
	call(http.MethodPost, "/programs", token, object{
		"name": name, "slug": "shop-" + strconv.Itoa(n), "websiteUrl": "https://shop.example.com", "isPublic": true, "currency": "EUR",
		"commissionRules": object{"commissionType": "percentage", "percentage": 30, "holdPeriodDays": 30, "autoApproval": true},
	})
	program := created.ID
	call(http.MethodPost, "/programs/"+program+"/activate", token, nil)
	targets := make([]target, len(partnerTokens))
	for i, partnerToken := range partnerTokens {
		call(http.MethodPost, "/partner/programs/"+program+"/apply", partnerToken, object{"acceptTerms": true})
		participant := created.ID
		call(http.MethodPatch, "/programs/"+program+"/partners/"+participant+"/approve", token, object{})
		call(http.MethodGet, "/programs/"+program+"/partners/"+participant, token, nil)
		code := created.ReferralCode
		call(http.MethodPost, "/programs/"+program+"/links", token, object{"participantId": participant, "destinationUrl": "https://shop.example.com/sale"})
		if err != nil {
			return nil, err
		}
		_, short, ok := strings.Cut(created.ShortURL, "go.example")
		if !ok || key == "" || secret == "" || code == "" {
			return nil, fmt.Errorf("a short link, a key or a referral code is missing: %+v", created)
		}
		t := target{key: key, code: code, shortPath: short, secret: secret, promo: "SAVE-" + strconv.Itoa(n) + "-" + strconv.Itoa(i), merchant: n}
		var faults [3]error
		t.program, faults[0] = uuid.Parse(program)
		t.participant, faults[1] = uuid.Parse(participant)
		t.link, faults[2] = uuid.Parse(created.ID)
		call(http.MethodPost, "/programs/"+program+"/promo-codes", token, object{
			"participantId": participant, "code": t.promo, "discountType": "percentage", "discountValue": 10,
		})
		if err := errors.Join(err, errors.Join(faults[:]...)); err != nil {
			return nil, err
		}
		targets[i] = t
	}
	return targets, err
}

// endpointSubscriptions contains the subscriptions of each endpoint of each merchant.
var endpointSubscriptions = [merchants][][]string{{{"*"}, {conversionCreated, "commission.*"}}, {{"*"}}}

// openEndpoints registers the webhook endpoints of a merchant. It is called before the
// first event.
func openEndpoints(ctx context.Context, api service.API, hooks *receiver, merchant int, token string) error {
	for _, subscriptions := range endpointSubscriptions[merchant] {
		var created struct{ ID, SigningSecret string }
		body := object{"url": hooks.nextURL(), "subscriptions": subscriptions}
		if err := api.Call(ctx, http.MethodPost, "/webhooks", token, body, &created); err != nil {
			return err
		}
		id, err := uuid.Parse(created.ID)
		if err != nil {
			return err
		}
		if err := hooks.addEndpoint(endpoint{id: id, merchant: merchant, subscriptions: subscriptions}, created.SigningSecret); err != nil {
			return err
		}
	}
	return nil
}

// loadWorkspaces reads the workspace id of each target from the database. The API does
// not return this id, but the records of the click stream contain it.
func loadWorkspaces(ctx context.Context, database string, targets []target) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	for n := range targets {
		const find = `select workspace_id from programs where id = $1`
		if err := conn.QueryRow(ctx, find, targets[n].program).Scan(&targets[n].workspace); err != nil {
			return fmt.Errorf("programme %s: %w", targets[n].program, err)
		}
	}
	return nil
}

// clickCounts returns the click count of each participant from the API.
func clickCounts(ctx context.Context, api service.API, targets []target) (map[uuid.UUID]int64, error) {
	counts := make(map[uuid.UUID]int64, len(targets))
	var tokens [merchants]string
	for _, t := range targets {
		if tokens[t.merchant] == "" {
			login := object{"email": emailOf("merchant", t.merchant), "password": password}
			var response struct{ AccessToken string }
			if err := api.Call(ctx, http.MethodPost, "/auth/merchant/login", "", login, &response); err != nil {
				return nil, err
			}
			tokens[t.merchant] = response.AccessToken
		}
		var response struct{ Clicks *int64 }
		path := "/programs/" + t.program.String() + "/partners/" + t.participant.String()
		if err := api.Call(ctx, http.MethodGet, path, tokens[t.merchant], nil, &response); err != nil {
			return nil, err
		}
		if response.Clicks == nil {
			return nil, fmt.Errorf("the response to GET %s has no field clicks", path)
		}
		counts[t.participant] = *response.Clicks
	}
	return counts, nil
}

func emailOf(kind string, n int) string { return kind + strconv.Itoa(n) + "@example.com" }

// register creates an account and returns its access token.
func register(ctx context.Context, api service.API, kind string, n int, fields object) (string, error) {
	fields["email"], fields["password"] = emailOf(kind, n), password
	var response struct{ AccessToken string }
	err := api.Call(ctx, http.MethodPost, "/auth/"+kind+"/register", "", fields, &response)
	return response.AccessToken, err
}

// checkHealth returns an error unless the health check at the URL returns 200.
func checkHealth(ctx context.Context, url string) error {
	_, err := get(ctx, url)
	return err
}

// get returns the body of a GET request. It returns an error if the status is not 200.
func get(ctx context.Context, url string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %d %s", url, response.StatusCode, text)
	}
	return text, err
}

// checkResolved returns an error if the collector does not find the key and the short
// link of the target. It sends two requests that register no click. The first is a HEAD
// request to the short link. The second is a click without a code, which the collector
// rejects with 400 if it finds the key.
func (t target) checkResolved(ctx context.Context, collector string) error {
	for _, probe := range []struct {
		method, path string
		status       int
	}{{http.MethodHead, t.shortPath, http.StatusFound}, {http.MethodPost, "/v1/clicks", http.StatusBadRequest}} {
		request, err := http.NewRequestWithContext(ctx, probe.method, "http://"+collector+probe.path, nil)
		if err != nil {
			return err
		}
		request.Header.Set("Authorization", "Bearer "+t.key)
		response, err := http.DefaultTransport.RoundTrip(request)
		if err != nil {
			return err
		}
		_ = response.Body.Close()
		if response.StatusCode != probe.status {
			return fmt.Errorf("%s %s returns %d", probe.method, probe.path, response.StatusCode)
		}
	}
	return nil
}
