package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// clubProgramIDName is the name of the variable that holds the id of the demo's second
// programme, Coffee club.
const clubProgramIDName = "DEMO_CLUB_PROGRAM_ID"

// member describes a partner of the second programme.
type member struct {
	name, status, group string
	// promoCode is the partner's promo code. If it is empty, the partner has no promo
	// code.
	promoCode string
	// override is the partner's own commission rate in percent. If it is 0, the partner
	// has no own rate.
	override int
}

// club lists the partners of the second programme. There are partners in every status.
// clubGroups lists their groups.
var club = []member{
	{name: "Ada Affiliate", status: "approved", group: "Ambassadors", promoCode: "ADA10"},
	{name: "Bo Blogger", status: "approved", group: "Ambassadors"},
	{name: "Cem Creator", status: "approved", group: "Bloggers", promoCode: "CEM15"},
	{name: "Dana Deals", status: "approved", group: "Bloggers"},
	{name: "Eli Editor", status: "approved", override: 40},
	{name: "Fay Forum", status: "approved"},
	{name: "Gil Guide", status: "pending"},
	{name: "Hana Host", status: "pending"},
	{name: "Ivo Influencer", status: "pending"},
	{name: "Jo Juggler", status: "rejected"},
	{name: "Kai Kurator", status: "suspended", promoCode: "KAI5"},
	{name: "Lea Lister", status: "suspended"},
}

// clubGroups maps each group of the second programme to its commission percentage.
var clubGroups = map[string]int{"Ambassadors": 30, "Bloggers": 25}

// seedClub creates the second programme with tiers, products, limits, groups and partners. It
// changes existing data only to complete a run that was interrupted.
func (d *demo) seedClub(ctx context.Context, merchant apiClient) error {
	var p program
	if id := d.values[clubProgramIDName]; id != "" {
		err := merchant.call(ctx, http.MethodGet, "/api/v1/programs/"+url.PathEscape(id), nil, &p)
		if err != nil && !hasCode(err, "NOT_FOUND") {
			return err
		}
	}
	if p.ID == "" {
		err := merchant.call(ctx, http.MethodPost, "/api/v1/programs", map[string]any{
			"name":        "Coffee club",
			"description": "Beans by subscription. Thirty percent for our ambassadors.",
			"websiteUrl":  demoWebsite + "club",
			"isPublic":    true,
			// observe has the same reason as in the first programme (seed.go).
			"fraudPolicy":    "observe",
			"allowedDomains": []string{"shop.example", "*.shop.example"},
			"commissionRules": map[string]any{
				"percentage":      20,
				"laterPercentage": 10,
				"recurring":       map[string]any{"maxMonths": 12},
				"minOrderCents":   1000,
				"capCents":        50000,
				"tiers": []map[string]any{
					{"minConversions": 10, "percentage": 22.5},
					{"minConversions": 50, "percentage": 25},
				},
				"products": []map[string]any{{"productId": "grinder", "percentage": 5}, {"productId": "gift-card", "flatAmountCents": 100}},
				"events":   []map[string]any{{"eventType": "purchase"}, {"eventType": "renewal"}, {"eventType": "signup", "flatAmountCents": 50}},
			},
		}, &p)
		if err != nil {
			return err
		}
		d.values[clubProgramIDName] = p.ID
	}
	base := "/api/v1/programs/" + p.ID
	if p.Status == "draft" {
		if err := merchant.call(ctx, http.MethodPost, base+"/activate", nil, nil); err != nil {
			return err
		}
	}
	groups, err := d.ensureClubGroups(ctx, merchant, base)
	if err != nil {
		return err
	}
	var existing struct {
		Data []struct {
			participant
			PartnerName string `json:"partnerName"`
		} `json:"data"`
	}
	if err := merchant.call(ctx, http.MethodGet, base+"/partners?pageSize=100", nil, &existing); err != nil {
		return err
	}
	participants := map[string]participant{}
	for _, p := range existing.Data {
		participants[p.PartnerName] = p.participant
	}
	for i, m := range club {
		if err := d.seedMember(ctx, merchant, p.ID, i, m, participants[m.name], groups); err != nil {
			return err
		}
	}
	return nil
}

// ensureClubGroups creates missing groups. It returns the ids of all groups by name.
func (d *demo) ensureClubGroups(ctx context.Context, merchant apiClient, base string) (map[string]string, error) {
	var list struct {
		Data []struct {
			ID   string `json:"id"`
			Name string `json:"name"`
		} `json:"data"`
	}
	if err := merchant.call(ctx, http.MethodGet, base+"/groups", nil, &list); err != nil {
		return nil, err
	}
	ids := map[string]string{}
	for _, group := range list.Data {
		ids[group.Name] = group.ID
	}
	for name, percentage := range clubGroups {
		if ids[name] != "" {
			continue
		}
		var created struct {
			ID string `json:"id"`
		}
		if err := merchant.call(ctx, http.MethodPost, base+"/groups", map[string]any{"name": name, "percentage": percentage}, &created); err != nil {
			return nil, err
		}
		ids[name] = created.ID
	}
	return ids, nil
}

// seedMember creates a partner and its participant in the programme. p is the existing
// participant of the partner, or the zero value. An existing participant is not changed, unless
// it is pending and should have another status: an earlier start may have been interrupted, so
// seedMember completes it. i is the position of the partner in club.
func (d *demo) seedMember(ctx context.Context, merchant apiClient, programID string, i int, m member, p participant, groups map[string]string) error {
	if p.ID != "" && (p.Status != "pending" || m.status == "pending") {
		return nil
	}
	if p.ID == "" {
		partner, err := d.ensureClubAccount(ctx, programID, i, m)
		if err != nil {
			return err
		}
		apply := "/api/v1/partner/programs/" + programID + "/apply"
		answers := map[string]any{"answers": map[string]string{"audience": "Readers of " + m.name}}
		if err := partner.call(ctx, http.MethodPost, apply, answers, &p); err != nil {
			return err
		}
	}
	path := "/api/v1/programs/" + programID + "/partners/" + p.ID
	patch := map[string]any{}
	if m.group != "" {
		patch["groupId"] = groups[m.group]
		patch["tags"] = []string{strings.ToLower(m.group)}
	}
	if m.override != 0 {
		patch["commissionOverride"] = map[string]int{"percentage": m.override}
		patch["note"] = "Agreed at the fair."
	}
	if len(patch) > 0 {
		if err := merchant.call(ctx, http.MethodPatch, path, patch, nil); err != nil {
			return err
		}
	}
	if m.promoCode != "" {
		err := merchant.call(ctx, http.MethodPost, "/api/v1/programs/"+programID+"/promo-codes", map[string]any{
			"participantId": p.ID, "code": m.promoCode, "discountType": "percentage", "discountValue": 10,
		}, nil)
		if err != nil && !hasCode(err, "PROMO_CODE_TAKEN") {
			return err
		}
	}
	actions := map[string][]string{"approved": {"approve"}, "rejected": {"reject"}, "suspended": {"approve", "suspend"}}[m.status]
	for _, action := range actions {
		if err := merchant.call(ctx, http.MethodPatch, path+"/"+action, map[string]any{}, nil); err != nil {
			return err
		}
	}
	return nil
}

// ensureClubAccount registers a partner. If an earlier start has already registered the
// partner, it logs in. All partners have the password of the demo partner.
func (d *demo) ensureClubAccount(ctx context.Context, programID string, i int, m member) (apiClient, error) {
	var s session
	// The number of registrations per client address is limited, so each partner uses a
	// different address.
	api := d.api.withAddress(fmt.Sprintf("198.51.100.%d", i+1))
	first, _, _ := strings.Cut(strings.ToLower(m.name), " ")
	credentials := map[string]string{
		"email": first + "-" + programID[len(programID)-8:] + "@demo.example", "password": d.values[partnerPasswordName],
	}
	err := api.call(ctx, http.MethodPost, "/api/v1/auth/partner/register", map[string]string{
		"email": credentials["email"], "password": credentials["password"], "name": m.name,
	}, &s)
	if hasCode(err, "EMAIL_TAKEN") {
		err = api.call(ctx, http.MethodPost, "/api/v1/auth/partner/login", credentials, &s)
	}
	return api.withCredential(s.AccessToken).withMode(demoModes[0]), err
}
