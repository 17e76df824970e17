package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	merchantEmailName    = "DEMO_MERCHANT_EMAIL"
	merchantPasswordName = "DEMO_MERCHANT_PASSWORD"
	partnerEmailName     = "DEMO_PARTNER_EMAIL"
	partnerPasswordName  = "DEMO_PARTNER_PASSWORD"
	programIDName        = "DEMO_PROGRAM_ID"
	referralCodeName     = "DEMO_REFERRAL_CODE"
	serviceTokenName     = "DEMO_SERVICE_TOKEN"
	// programPageName is the name of the variable that holds the address of the programme's page in
	// the portal.
	programPageName = "DEMO_PROGRAM_PAGE"

	merchantEmail = "merchant@demo.example"
	partnerEmail  = "partner@demo.example"

	demoWebsite = "https://shop.example/"

	// codeTimeout is the maximum time to wait until the collector accepts a new referral
	// code.
	codeTimeout = 10 * time.Second
)

// demoModes lists the modes in which the demo has API keys. The demo programmes are in
// the first mode.
var demoModes = []string{"test", "live"}

// publicKeyName and secretKeyName return the names of the variables that hold the keys of
// a mode.
func publicKeyName(mode string) string { return "DEMO_PK_" + strings.ToUpper(mode) }
func secretKeyName(mode string) string { return "DEMO_SK_" + strings.ToUpper(mode) }

// demoNames lists the names of the demo's variables, in the order of the file .dev/env.
var demoNames = []string{
	merchantEmailName, merchantPasswordName, partnerEmailName, partnerPasswordName, programIDName, programPageName, referralCodeName, clubProgramIDName,
	"DEMO_PK_TEST", "DEMO_SK_TEST", "DEMO_PK_LIVE", "DEMO_SK_LIVE", serviceTokenName, stripeConnectionName, stripeSecretName,
}

// demo creates the demo data through the public API: a merchant, two programmes and their
// partners.
type demo struct {
	api, collector apiClient
	// shopURL is the address of the demo shop.
	shopURL string
	// stripeURL is the address of the stand-in for Stripe. It is empty if there is none.
	stripeURL string
	// values are the variables of .dev/env. seed updates them.
	values map[string]string
	// printLine prints a message about data that had to be created or changed again.
	printLine func(format string, args ...any)
}

type session struct {
	AccessToken string `json:"accessToken"`
	User        struct {
		ID string `json:"id"`
	} `json:"user"`
}

type program struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Slug   string `json:"slug"`
	Status string `json:"status"`
	// LandingURL is the page to which the links of partners lead.
	LandingURL string `json:"landingUrl"`
}

type participant struct {
	ID           string `json:"id"`
	PartnerID    string `json:"partnerId"`
	Status       string `json:"status"`
	ReferralCode string `json:"referralCode"`
	ExternalID   string `json:"externalId"`
}

// seed creates the data that the walkthrough needs. It keeps existing data and creates
// missing data. It also activates a paused programme and reinstates a suspended partner.
// It can be repeated, even after it was interrupted.
func (d *demo) seed(ctx context.Context) error {
	merchant, err := d.ensureAccount(ctx, "merchant", merchantEmailName, merchantPasswordName, merchantEmail,
		map[string]string{"name": "Mia Merchant", "workspaceName": "Demo shop"})
	if err != nil {
		return err
	}
	partner, err := d.ensureAccount(ctx, "partner", partnerEmailName, partnerPasswordName, partnerEmail,
		map[string]string{"name": "Paula Partner", "country": "DE"})
	if err != nil {
		return err
	}
	asMerchant := d.api.withCredential(merchant.AccessToken)
	for _, mode := range demoModes {
		if err := d.ensureKeys(ctx, asMerchant.withMode(mode), mode); err != nil {
			return err
		}
	}
	mode := demoModes[0]
	if err := d.ensureServiceToken(ctx, asMerchant, mode); err != nil {
		return err
	}
	if err := d.ensureProgram(ctx, asMerchant.withMode(mode)); err != nil {
		return err
	}
	if err := d.ensureParticipant(ctx, asMerchant.withMode(mode), d.api.withCredential(partner.AccessToken).withMode(mode), partner.User.ID); err != nil {
		return err
	}
	if err := d.seedClub(ctx, asMerchant.withMode(mode)); err != nil {
		return err
	}
	return d.connectStripe(ctx, asMerchant.withMode(mode))
}

// ensureAccount logs in with the credentials in .dev/env. If they are missing or not valid, it
// registers an account with the given e-mail address. If this address is already registered,
// the password of its account is unknown, and ensureAccount registers an account with a random
// address.
func (d *demo) ensureAccount(ctx context.Context, kind, emailName, passwordName, address string, profile map[string]string) (session, error) {
	var s session
	base := "/api/v1/auth/" + kind
	hasCredentials := d.values[emailName] != "" && d.values[passwordName] != ""
	if hasCredentials {
		login := map[string]string{"email": d.values[emailName], "password": d.values[passwordName]}
		err := d.api.call(ctx, http.MethodPost, base+"/login", login, &s)
		if !hasCode(err, "INVALID_CREDENTIALS", "VALIDATION_ERROR") {
			return s, err
		}
	}
	for _, email := range []string{address, uniqueAddress(address)} {
		password := rand.Text()
		profile["email"], profile["password"] = email, password
		err := d.api.call(ctx, http.MethodPost, base+"/register", profile, &s)
		if hasCode(err, "EMAIL_TAKEN") {
			continue
		}
		if err != nil {
			return s, err
		}
		switch {
		case email != address:
			d.printLine("The password of %s is no longer in .dev/env: created a new demo %s, %s.", address, kind, email)
		case hasCredentials:
			d.printLine("The database does not have the demo %s of .dev/env: created it again.", kind)
		}
		d.values[emailName], d.values[passwordName] = email, password
		return s, nil
	}
	return s, fmt.Errorf("no address is free for the demo %s", kind)
}

// uniqueAddress returns a random e-mail address at the same host.
func uniqueAddress(address string) string {
	user, host, _ := strings.Cut(address, "@")
	return user + "-" + strings.ToLower(rand.Text()[:8]) + "@" + host
}

// ensureKeys stores the public key of a mode in d.values. It also creates a secret key,
// unless d.values has a secret key that the API still lists. The API lists only the
// prefix and the last four characters of a secret key.
func (d *demo) ensureKeys(ctx context.Context, merchant apiClient, mode string) error {
	var keys struct {
		PublicKey  string `json:"publicKey"`
		SecretKeys []struct {
			Prefix string `json:"prefix"`
			Last4  string `json:"last4"`
		} `json:"secretKeys"`
	}
	if err := merchant.call(ctx, http.MethodGet, "/api/v1/api-keys", nil, &keys); err != nil {
		return err
	}
	d.values[publicKeyName(mode)] = keys.PublicKey
	saved := d.values[secretKeyName(mode)]
	for _, key := range keys.SecretKeys {
		if saved != "" && strings.HasPrefix(saved, key.Prefix) && strings.HasSuffix(saved, key.Last4) {
			return nil
		}
	}
	var created struct {
		SecretKey string `json:"secretKey"`
	}
	err := merchant.call(ctx, http.MethodPost, "/api/v1/api-keys", map[string]string{"name": "Demo"}, &created)
	d.values[secretKeyName(mode)] = created.SecretKey
	return err
}

// ensureServiceToken creates a service token for the shop's server, unless the one in
// d.values still works.
func (d *demo) ensureServiceToken(ctx context.Context, merchant apiClient, mode string) error {
	if saved := d.values[serviceTokenName]; saved != "" {
		err := d.api.withCredential(saved).call(ctx, http.MethodGet, "/api/v1/programs", nil, nil)
		if !hasCode(err, "UNAUTHORIZED") {
			return err
		}
	}
	var created struct {
		Token string `json:"token"`
	}
	err := merchant.call(ctx, http.MethodPost, "/api/v1/service-tokens", map[string]string{
		"name": "Demo shop", "role": "manager", "mode": mode,
	}, &created)
	d.values[serviceTokenName] = created.Token
	return err
}

// ensureProgram finds or creates a programme whose links lead to the demo shop, and activates it. A
// created programme has no hold period, and its commissions are not approved automatically.
func (d *demo) ensureProgram(ctx context.Context, merchant apiClient) error {
	var p program
	id := d.values[programIDName]
	if id != "" {
		err := merchant.call(ctx, http.MethodGet, "/api/v1/programs/"+url.PathEscape(id), nil, &p)
		if err != nil && !hasCode(err, "NOT_FOUND") {
			return err
		}
	}
	if p.ID == "" || p.Status == "archived" {
		p = program{}
		err := merchant.call(ctx, http.MethodPost, "/api/v1/programs", map[string]any{
			"name":       "Demo programme",
			"slug":       "demo-" + strings.ToLower(rand.Text()[:8]),
			"websiteUrl": demoWebsite,
			"isPublic":   true,
			// With another policy the commissions would be rejected as fraud, because the
			// partner, the visitor and the buyer use the same machine within seconds.
			"fraudPolicy": "observe",
			"commissionRules": map[string]any{
				"commissionType": "percentage",
				"percentage":     20,
				"holdPeriodDays": 0,
				"autoApproval":   false,
			},
		}, &p)
		if err != nil {
			return err
		}
		d.values[programIDName], d.values[referralCodeName] = p.ID, ""
	}
	var branding struct {
		Slug string `json:"slug"`
	}
	if err := merchant.call(ctx, http.MethodGet, "/api/v1/workspace/branding", nil, &branding); err != nil {
		return err
	}
	d.values[programPageName] = d.api.url + "/portal/" + demoModes[0] + "/" + branding.Slug + "/" + p.Slug
	// The shop may have another port than in the run before. Another page is a change by the user.
	if p.LandingURL != d.shopURL && (p.LandingURL == "" || strings.HasPrefix(p.LandingURL, "http://127.0.0.1:")) {
		if err := merchant.call(ctx, http.MethodPatch, "/api/v1/programs/"+p.ID, map[string]any{"landingUrl": d.shopURL}, nil); err != nil {
			return err
		}
	}
	if p.Status == "active" {
		return nil
	}
	if p.Status == "paused" {
		d.printLine("The demo programme was paused: activated it.")
	}
	return merchant.call(ctx, http.MethodPost, "/api/v1/programs/"+p.ID+"/activate", nil, nil)
}

// ensureParticipant finds the demo partner's participant in the programme, or creates it.
// It approves or reinstates the participant if it is not approved.
func (d *demo) ensureParticipant(ctx context.Context, merchant, partner apiClient, partnerID string) error {
	base := "/api/v1/programs/" + d.values[programIDName] + "/partners"
	p, err := findParticipant(ctx, merchant, base, partnerID)
	if err != nil {
		return err
	}
	if p.ID == "" {
		apply := "/api/v1/partner/programs/" + d.values[programIDName] + "/apply"
		if err := partner.call(ctx, http.MethodPost, apply, map[string]any{"acceptTerms": true}, &p); err != nil {
			return err
		}
	}
	action := map[string]string{"pending": "approve", "rejected": "approve", "suspended": "reinstate"}[p.Status]
	if action != "" {
		if p.Status != "pending" {
			d.printLine("The demo partner was %s: approved again.", p.Status)
		}
		if err := merchant.call(ctx, http.MethodPatch, base+"/"+p.ID+"/"+action, map[string]any{}, nil); err != nil {
			return err
		}
	}
	if p.ExternalID != partnerExternalID {
		if err := merchant.call(ctx, http.MethodPatch, base+"/"+p.ID, map[string]string{"externalId": partnerExternalID}, nil); err != nil {
			return err
		}
	}
	isNew := d.values[referralCodeName] != p.ReferralCode
	d.values[referralCodeName] = p.ReferralCode
	if isNew {
		return d.visit(ctx)
	}
	return nil
}

// findParticipant returns the participant of a partner in a programme. It returns the
// zero value if the partner does not participate.
func findParticipant(ctx context.Context, merchant apiClient, base, partnerID string) (participant, error) {
	const pageSize = 100
	for page := 1; ; page++ {
		var list struct {
			Data  []participant `json:"data"`
			Total int           `json:"total"`
		}
		err := merchant.call(ctx, http.MethodGet, fmt.Sprintf("%s?page=%d&pageSize=%d", base, page, pageSize), nil, &list)
		if err != nil {
			return participant{}, err
		}
		for _, p := range list.Data {
			if p.PartnerID == partnerID {
				return p, nil
			}
		}
		if len(list.Data) == 0 || page*pageSize >= list.Total {
			return participant{}, nil
		}
	}
}

// visit sends one click with the new referral code. The collector looks the code up in
// the edge directory. The call that created the code waits at most 100 ms for the update
// of the edge directory, so the code may be missing there at first. Therefore visit
// repeats the click until the collector accepts it.
func (d *demo) visit(ctx context.Context) error {
	visitor := d.collector.withCredential(d.values[publicKeyName(demoModes[0])])
	click := map[string]string{"referral_code": d.values[referralCodeName], "url": demoWebsite}
	deadline := time.Now().Add(codeTimeout)
	for {
		err := visitor.call(ctx, http.MethodPost, "/v1/clicks", click, nil)
		if !hasCode(err, "NOT_FOUND", "INVALID_PUBLIC_KEY") || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
