package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// clubProgramName is the variable of the demo's second programme.
const clubProgramName = "DEMO_CLUB_PROGRAM_ID"

// member is a partner of the club, as the demo wants it to stand there.
type member struct {
	name, status, group string
	// promoCode is given to the partner; empty: none.
	promoCode string
	// override is a rate of the partner's own in percent; 0: none.
	override int
}

// club is a dozen partners in every state. The groups are those of clubGroups.
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

// clubGroups are the groups and their percentages.
var clubGroups = map[string]int{"Ambassadors": 30, "Bloggers": 25}

// seedClub makes the second programme: tiers, products, limits, groups, and the
// club in it. What is there stays as it is.
func (d *demo) seedClub(ctx context.Context, merchant caller) error {
	var p program
	if id := d.values[clubProgramName]; id != "" {
		err := merchant.call(ctx, http.MethodGet, "/api/v1/programs/"+url.PathEscape(id), nil, &p)
		if err != nil && !refused(err, "NOT_FOUND") {
			return err
		}
	}
	if p.ID == "" {
		err := merchant.call(ctx, http.MethodPost, "/api/v1/programs", map[string]any{
			"name":        "Coffee club",
			"description": "Beans by subscription. Thirty percent for our ambassadors.",
			"websiteUrl":  demoWebsite + "club",
			// Partner, visitor and buyer are one machine here, and quick ones.
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
		d.values[clubProgramName] = p.ID
	}
	base := "/api/v1/programs/" + p.ID
	if p.Status == "draft" {
		if err := merchant.call(ctx, http.MethodPost, base+"/activate", nil, nil); err != nil {
			return err
		}
	}
	groups, err := d.clubGroups(ctx, merchant, base)
	if err != nil {
		return err
	}
	var there struct {
		Data []struct {
			participant
			PartnerName string `json:"partnerName"`
		} `json:"data"`
	}
	if err := merchant.call(ctx, http.MethodGet, base+"/partners?pageSize=100", nil, &there); err != nil {
		return err
	}
	places := map[string]participant{}
	for _, place := range there.Data {
		places[place.PartnerName] = place.participant
	}
	for i, m := range club {
		if err := d.seedMember(ctx, merchant, p.ID, i, m, places[m.name], groups); err != nil {
			return err
		}
	}
	return nil
}

// clubGroups makes the groups that are missing and returns their ids by name.
func (d *demo) clubGroups(ctx context.Context, merchant caller, base string) (map[string]string, error) {
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
		var made struct {
			ID string `json:"id"`
		}
		if err := merchant.call(ctx, http.MethodPost, base+"/groups", map[string]any{"name": name, "percentage": percentage}, &made); err != nil {
			return nil, err
		}
		ids[name] = made.ID
	}
	return ids, nil
}

// seedMember brings one partner to its place. A place that is there has been
// made before, and whatever became of it stays, but for a start that was cut
// short: such a one is pending still.
func (d *demo) seedMember(ctx context.Context, merchant caller, programID string, i int, m member, place participant, groups map[string]string) error {
	if place.ID != "" && (place.Status != "pending" || m.status == "pending") {
		return nil
	}
	if place.ID == "" {
		partner, err := d.clubAccount(ctx, programID, i, m)
		if err != nil {
			return err
		}
		apply := "/api/v1/partner/programs/" + programID + "/apply"
		answers := map[string]any{"answers": map[string]string{"audience": "Readers of " + m.name}}
		if err := partner.call(ctx, http.MethodPost, apply, answers, &place); err != nil {
			return err
		}
	}
	path := "/api/v1/programs/" + programID + "/partners/" + place.ID
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
			"participantId": place.ID, "code": m.promoCode, "discountType": "percentage", "discountValue": 10,
		}, nil)
		if err != nil && !refused(err, "PROMO_CODE_TAKEN") {
			return err
		}
	}
	moves := map[string][]string{"approved": {"approve"}, "rejected": {"reject"}, "suspended": {"approve", "suspend"}}[m.status]
	for _, move := range moves {
		if err := merchant.call(ctx, http.MethodPatch, path+"/"+move, map[string]any{}, nil); err != nil {
			return err
		}
	}
	return nil
}

// clubAccount registers a partner of the club, or logs in when a start that was
// cut short has done so. All of them have the demo partner's password.
func (d *demo) clubAccount(ctx context.Context, programID string, i int, m member) (caller, error) {
	var s session
	// Registrations are counted per address; each of these people has an own one.
	api := d.api.from(fmt.Sprintf("198.51.100.%d", i+1))
	first, _, _ := strings.Cut(strings.ToLower(m.name), " ")
	credentials := map[string]string{
		"email": first + "-" + programID[len(programID)-8:] + "@demo.example", "password": d.values[partnerPasswordName],
	}
	err := api.call(ctx, http.MethodPost, "/api/v1/auth/partner/register", map[string]string{
		"email": credentials["email"], "password": credentials["password"], "name": m.name,
	}, &s)
	if refused(err, "EMAIL_TAKEN") {
		err = api.call(ctx, http.MethodPost, "/api/v1/auth/partner/login", credentials, &s)
	}
	return api.as(s.AccessToken).in(demoModes[0]), err
}
