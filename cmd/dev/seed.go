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
	programName          = "DEMO_PROGRAM_ID"
	referralCodeName     = "DEMO_REFERRAL_CODE"

	merchantEmail = "merchant@demo.example"
	partnerEmail  = "partner@demo.example"

	demoWebsite = "https://shop.example/"

	// codeKnownWithin limits the wait until a new referral code works at the collector.
	codeKnownWithin = 10 * time.Second
)

// demoModes are the modes of the keys. The programmes are in the first.
var demoModes = []string{"test", "live"}

// publicKeyName and secretKeyName return the variables of a mode's keys.
func publicKeyName(mode string) string { return "DEMO_PK_" + strings.ToUpper(mode) }
func secretKeyName(mode string) string { return "DEMO_SK_" + strings.ToUpper(mode) }

// demoNames are the variables of the demo, in the order of the file.
var demoNames = []string{
	merchantEmailName, merchantPasswordName, partnerEmailName, partnerPasswordName, programName, referralCodeName, clubProgramName,
	"DEMO_PK_TEST", "DEMO_SK_TEST", "DEMO_PK_LIVE", "DEMO_SK_LIVE",
}

// demo creates a merchant with two programmes and partners through the public API.
type demo struct {
	api, collector caller
	// values are the variables of .dev/env. seed updates them.
	values map[string]string
	// say prints what has changed since the last run.
	say func(format string, args ...any)
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
	Status string `json:"status"`
}

type participant struct {
	ID           string `json:"id"`
	PartnerID    string `json:"partnerId"`
	Status       string `json:"status"`
	ReferralCode string `json:"referralCode"`
}

// seed creates the data that the walk needs. It keeps existing data, creates missing data,
// and reactivates a paused programme and a suspended partner. It can be repeated, also
// after an interruption.
func (d *demo) seed(ctx context.Context) error {
	merchant, err := d.account(ctx, "merchant", merchantEmailName, merchantPasswordName, merchantEmail,
		map[string]string{"name": "Mia Merchant", "workspaceName": "Demo shop"})
	if err != nil {
		return err
	}
	partner, err := d.account(ctx, "partner", partnerEmailName, partnerPasswordName, partnerEmail,
		map[string]string{"name": "Paula Partner", "country": "DE"})
	if err != nil {
		return err
	}
	asMerchant := d.api.as(merchant.AccessToken)
	for _, mode := range demoModes {
		if err := d.keys(ctx, asMerchant.in(mode), mode); err != nil {
			return err
		}
	}
	mode := demoModes[0]
	if err := d.program(ctx, asMerchant.in(mode)); err != nil {
		return err
	}
	if err := d.participant(ctx, asMerchant.in(mode), d.api.as(partner.AccessToken).in(mode), partner.User.ID); err != nil {
		return err
	}
	return d.seedClub(ctx, asMerchant.in(mode))
}

// account logs in with the stored credentials. If the database does not have the account,
// it creates one; if the address is taken and the password is lost, it uses a new address.
func (d *demo) account(ctx context.Context, kind, emailName, passwordName, address string, about map[string]string) (session, error) {
	var s session
	base := "/api/v1/auth/" + kind
	kept := d.values[emailName] != "" && d.values[passwordName] != ""
	if kept {
		login := map[string]string{"email": d.values[emailName], "password": d.values[passwordName]}
		err := d.api.call(ctx, http.MethodPost, base+"/login", login, &s)
		if !refused(err, "INVALID_CREDENTIALS", "VALIDATION_ERROR") {
			return s, err
		}
	}
	for _, email := range []string{address, fresh(address)} {
		password := rand.Text()
		about["email"], about["password"] = email, password
		err := d.api.call(ctx, http.MethodPost, base+"/register", about, &s)
		if refused(err, "EMAIL_TAKEN") {
			continue
		}
		if err != nil {
			return s, err
		}
		switch {
		case email != address:
			d.say("The password of %s is no longer in .dev/env: created a new demo %s, %s.", address, kind, email)
		case kept:
			d.say("The database does not have the demo %s of .dev/env: created it again.", kind)
		}
		d.values[emailName], d.values[passwordName] = email, password
		return s, nil
	}
	return s, fmt.Errorf("no address is free for the demo %s", kind)
}

// fresh returns a new address with the same host.
func fresh(address string) string {
	user, host, _ := strings.Cut(address, "@")
	return user + "-" + strings.ToLower(rand.Text()[:8]) + "@" + host
}

// keys reads the public key of a mode and creates a secret key, unless the stored one is
// still in the list. The list shows only the end of a secret key.
func (d *demo) keys(ctx context.Context, merchant caller, mode string) error {
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
	kept := d.values[secretKeyName(mode)]
	for _, key := range keys.SecretKeys {
		if kept != "" && strings.HasPrefix(kept, key.Prefix) && strings.HasSuffix(kept, key.Last4) {
			return nil
		}
	}
	var made struct {
		SecretKey string `json:"secretKey"`
	}
	err := merchant.call(ctx, http.MethodPost, "/api/v1/api-keys", map[string]string{"name": "Demo"}, &made)
	d.values[secretKeyName(mode)] = made.SecretKey
	return err
}

// program finds or creates a programme without hold period and automatic approval.
func (d *demo) program(ctx context.Context, merchant caller) error {
	var p program
	id := d.values[programName]
	if id != "" {
		err := merchant.call(ctx, http.MethodGet, "/api/v1/programs/"+url.PathEscape(id), nil, &p)
		if err != nil && !refused(err, "NOT_FOUND") {
			return err
		}
	}
	if p.ID == "" || p.Status == "archived" {
		p = program{}
		err := merchant.call(ctx, http.MethodPost, "/api/v1/programs", map[string]any{
			"name":       "Demo programme",
			"slug":       "demo-" + strings.ToLower(rand.Text()[:8]),
			"websiteUrl": demoWebsite,
			// Partner, visitor and buyer use the same machine, within seconds.
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
		d.values[programName], d.values[referralCodeName] = p.ID, ""
	}
	if p.Status == "active" {
		return nil
	}
	if p.Status == "paused" {
		d.say("The demo programme was paused: activated it.")
	}
	return merchant.call(ctx, http.MethodPost, "/api/v1/programs/"+p.ID+"/activate", nil, nil)
}

// participant finds or creates the partner's participation and approves it.
func (d *demo) participant(ctx context.Context, merchant, partner caller, partnerID string) error {
	base := "/api/v1/programs/" + d.values[programName] + "/partners"
	place, err := find(ctx, merchant, base, partnerID)
	if err != nil {
		return err
	}
	if place.ID == "" {
		apply := "/api/v1/partner/programs/" + d.values[programName] + "/apply"
		if err := partner.call(ctx, http.MethodPost, apply, map[string]any{"acceptTerms": true}, &place); err != nil {
			return err
		}
	}
	move := map[string]string{"pending": "approve", "rejected": "approve", "suspended": "reinstate"}[place.Status]
	if move != "" {
		if place.Status != "pending" {
			d.say("The demo partner was %s: approved again.", place.Status)
		}
		if err := merchant.call(ctx, http.MethodPatch, base+"/"+place.ID+"/"+move, map[string]any{}, nil); err != nil {
			return err
		}
	}
	isNew := d.values[referralCodeName] != place.ReferralCode
	d.values[referralCodeName] = place.ReferralCode
	if isNew {
		return d.visit(ctx)
	}
	return nil
}

// find returns a partner's participation in a programme, the zero value if there is none.
func find(ctx context.Context, merchant caller, base, partnerID string) (participant, error) {
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

// visit follows the new referral link once. It repeats the click while the edge does
// not know the code, because the call that made the code waits at most 100 ms for the
// edge directory.
func (d *demo) visit(ctx context.Context) error {
	visitor := d.collector.as(d.values[publicKeyName(demoModes[0])])
	click := map[string]string{"referral_code": d.values[referralCodeName], "url": demoWebsite}
	giveUp := time.Now().Add(codeKnownWithin)
	for {
		err := visitor.call(ctx, http.MethodPost, "/v1/clicks", click, nil)
		if !refused(err, "NOT_FOUND", "INVALID_PUBLIC_KEY") || time.Now().After(giveUp) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pollEvery):
		}
	}
}
