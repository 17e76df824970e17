package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v85/webhook"
)

const (
	stripeConnectionName = "DEMO_STRIPE_CONNECTION_ID"
	stripeSecretName     = "DEMO_STRIPE_WEBHOOK_SECRET"

	stripePath = "/api/v1/integrations/stripe"
	// demoStripeKey is the restricted key of the demo. The stand-in for Stripe accepts every key.
	// The account of a key is always the same, so a later run connects the same account again.
	demoStripeKey = "rk_test_demo_of_make_run"
	// outcomeTimeout is the maximum time to wait for the outcome of an event.
	outcomeTimeout = 15 * time.Second
)

// stripeConnection is the state of the connection to Stripe.
type stripeConnection struct {
	Connected         bool   `json:"connected"`
	ID                string `json:"id"`
	WebhookURL        string `json:"webhookUrl"`
	CreateConversions bool   `json:"createConversions"`
	IncludeOutOfBand  bool   `json:"includeOutOfBand"`
}

// connectStripe connects the demo's account at the stand-in for Stripe. It connects a connected
// account again with the same options, because a new stand-in lacks the webhook endpoint of an
// earlier run. It does nothing if there is no stand-in or another account is connected.
func (d *demo) connectStripe(ctx context.Context, merchant apiClient) error {
	delete(d.values, stripeConnectionName)
	delete(d.values, stripeSecretName)
	if d.stripeURL == "" {
		return nil
	}
	if err := waitForStripe(ctx, d.stripeURL); err != nil {
		return err
	}
	var c stripeConnection
	if err := merchant.call(ctx, http.MethodGet, stripePath, nil, &c); err != nil {
		return err
	}
	err := merchant.call(ctx, http.MethodPost, stripePath, map[string]any{
		"restrictedKey":     demoStripeKey,
		"createConversions": !c.Connected || c.CreateConversions,
		"includeOutOfBand":  c.IncludeOutOfBand,
	}, &c)
	if hasCode(err, "PROCESSOR_ALREADY_CONNECTED") {
		d.printLine("Another Stripe account is connected: dev stripe and the shop's Payment Link do not work.")
		return nil
	}
	if err != nil {
		return err
	}
	var endpoint stripeSecret
	if err := callStandIn(ctx, d.stripeURL+stripeSecretPath, map[string]string{"url": c.WebhookURL}, &endpoint); err != nil {
		return err
	}
	d.values[stripeConnectionName], d.values[stripeSecretName] = c.ID, endpoint.Secret
	return nil
}

// callStandIn posts body to address, one of the paths that the stand-in has for the demo only.
func callStandIn(ctx context.Context, address string, body, out any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	answer, err := post(ctx, address, text, nil)
	if err != nil {
		return err
	}
	return json.Unmarshal(answer, out)
}

// post sends a JSON body and returns the body of the response. If the status is not 200, the
// error contains the body.
func post(ctx context.Context, address string, body []byte, header http.Header) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	for name := range header {
		request.Header.Set(name, header.Get(name))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = errors.New(strings.TrimSpace(string(answer)))
	}
	return answer, err
}

// stripeAccount is the demo's account at the stand-in for Stripe.
type stripeAccount struct {
	stripeURL, apiURL  string
	connection, secret string
}

// stripeAccountOf returns the account that the variables of .dev/env describe. connected is
// false if no account of the stand-in is connected.
func stripeAccountOf(values map[string]string, apiURL string) (account stripeAccount, connected bool) {
	account = stripeAccount{
		stripeURL: values[stripeURLName], apiURL: apiURL, connection: values[stripeConnectionName], secret: values[stripeSecretName],
	}
	return account, account.secret != ""
}

// send makes an event in the stand-in, signs it and sends it to the service, as Stripe does.
// It does not wait until the event is applied.
func (a stripeAccount) send(ctx context.Context, trigger stripeTrigger) (stripeEvent, error) {
	var event stripeEvent
	if err := callStandIn(ctx, a.stripeURL+stripeTriggerPath, trigger, &event); err != nil {
		return event, err
	}
	signed := webhook.GenerateTestSignedPayload(&webhook.UnsignedPayload{Payload: event.Body, Secret: a.secret})
	header := http.Header{"Stripe-Signature": {signed.Header}}
	if _, err := post(ctx, a.apiURL+"/webhooks/stripe/"+a.connection, event.Body, header); err != nil {
		return event, fmt.Errorf("the service did not accept the event: %w", err)
	}
	return event, nil
}

// stripeOutcome is an event of Stripe as the API of the service lists it.
type stripeOutcome struct {
	ID           string  `json:"id"`
	Status       string  `json:"status"`
	Reason       *string `json:"reason"`
	ConversionID *string `json:"conversionId"`
}

// waitForOutcome waits until the service has applied, ignored or parked an event, or until
// the first attempt to apply it has failed. After outcomeTimeout it returns the current
// state.
func waitForOutcome(ctx context.Context, merchant apiClient, id string) (stripeOutcome, error) {
	for deadline := time.Now().Add(outcomeTimeout); ; {
		var list struct {
			Data []stripeOutcome `json:"data"`
		}
		if err := merchant.call(ctx, http.MethodGet, stripePath+"/events?pageSize=100", nil, &list); err != nil {
			return stripeOutcome{}, err
		}
		outcome := stripeOutcome{ID: id, Status: "unknown"}
		for _, event := range list.Data {
			if event.ID == id {
				outcome = event
			}
		}
		if outcome.Status != "received" && outcome.Status != "unknown" || outcome.Reason != nil || time.Now().After(deadline) {
			return outcome, nil
		}
		select {
		case <-ctx.Done():
			return outcome, ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
