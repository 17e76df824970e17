package e2e_test

import (
	"net/http"
	"testing"
)

func testPrograms(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t)
	var id string

	t.Run("a programme needs a name and has defaults for the rest", func(t *testing.T) {
		merchant.post(t, "/api/v1/programs", object{}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
		created := merchant.post(t, "/api/v1/programs", object{"name": " Café au Lait "}).wantStatus(http.StatusCreated).wantFields(object{
			"name": "Café au Lait", "slug": "cafe-au-lait", "status": "draft", "mode": "live", "currency": "USD",
			"description": nil, "websiteUrl": nil, "landingUrl": nil, "termsUrl": nil, "allowedDomains": []any{},
			"attributionWindowDays": 60, "attributionModel": "last_click", "linkParam": "via",
			"autoApprovePartners": false, "isPublic": false, "rulesVersion": 1,
			"commissionRules": object{
				"commissionType": "percentage", "percentage": 20, "flatAmountCents": nil,
				"holdPeriodDays": 30, "autoApproval": true, "netBasis": "net_of_tax",
				"recurring": object{"enabled": true, "maxMonths": nil, "maxPayments": nil}, "laterPercentage": nil,
				"minOrderCents": nil, "capCents": nil, "tiers": []any{}, "products": []any{}, "events": []any{},
			},
			"signalPrecedence": "click_first", "minPayoutCents": 0, "payoutTermDays": 0, "fraudPolicy": "flag",
		})
		id = created.text("id")
		if read := merchant.get(t, "/api/v1/programs/"+id).wantStatus(http.StatusOK); read.body != created.body {
			t.Errorf("GET returns another programme than POST:\nGET:  %s\nPOST: %s", read.body, created.body)
		}
	})
	t.Run("all fields can be set", func(t *testing.T) {
		merchant.post(t, "/api/v1/programs", object{
			"name": "All", "slug": "all-of-it", "description": "D", "websiteUrl": "https://www.shop.example/start",
			"landingUrl": "https://go.shop.example", "currency": "eur", "attributionWindowDays": 365, "attributionModel": "first_click",
			"linkParam": "ref", "autoApprovePartners": true, "isPublic": false, "termsUrl": "https://shop.example/terms",
			"commissionRules": object{"commissionType": "flat", "flatAmountCents": 1_000_000_000_000, "holdPeriodDays": 0, "autoApproval": false, "netBasis": "net_of_tax"},
		}).wantStatus(http.StatusCreated).wantFields(object{
			"slug": "all-of-it", "currency": "EUR", "attributionWindowDays": 365,
			"allowedDomains":   []any{"www.shop.example", "*.www.shop.example", "go.shop.example", "*.go.shop.example"},
			"attributionModel": "first_click", "linkParam": "ref", "autoApprovePartners": true, "isPublic": false,
			"commissionRules.commissionType": "flat", "commissionRules.percentage": nil, "commissionRules.flatAmountCents": 1_000_000_000_000,
			"commissionRules.holdPeriodDays": 0, "commissionRules.autoApproval": false, "commissionRules.netBasis": "net_of_tax",
		})
	})
	t.Run("a slug is unique in a mode of the workspace", func(t *testing.T) {
		merchant.post(t, "/api/v1/programs", object{"name": "Other", "slug": "all-of-it"}).wantError(http.StatusConflict, "SLUG_TAKEN")
		merchant.patch(t, "/api/v1/programs/"+id, object{"slug": "all-of-it"}).wantError(http.StatusConflict, "SLUG_TAKEN")
		merchant.inMode("test").post(t, "/api/v1/programs", object{"name": "Other", "slug": "all-of-it"}).wantStatus(http.StatusCreated)
	})
	t.Run("the list has the newest first and can be filtered", func(t *testing.T) {
		merchant.get(t, "/api/v1/programs?pageSize=1").wantStatus(http.StatusOK).
			wantFields(object{"total": 2, "page": 1, "limit": 1, "data.0.slug": "all-of-it"})
		merchant.get(t, "/api/v1/programs?pageSize=1&page=2").wantFields(object{"data.0.id": id})
		merchant.get(t, "/api/v1/programs?page=3").wantFields(object{"total": 2, "data": []any{}})
		merchant.get(t, "/api/v1/programs?status=active").wantFields(object{"total": 0, "data": []any{}})
	})

	changeStatus := func(t *testing.T, name string) response {
		t.Helper()
		return merchant.post(t, "/api/v1/programs/"+id+"/"+name, nil)
	}
	wantStateInvalid := func(t *testing.T, names ...string) {
		t.Helper()
		for _, name := range names {
			status := merchant.get(t, "/api/v1/programs/"+id).wantStatus(http.StatusOK).text("status")
			changeStatus(t, name).wantError(http.StatusConflict, "PROGRAM_STATE_INVALID").wantFields(object{"context": object{"status": status}})
		}
	}
	t.Run("a programme without a website cannot be activated", func(t *testing.T) {
		changeStatus(t, "activate").wantError(http.StatusBadRequest, "VALIDATION_ERROR")
		merchant.patch(t, "/api/v1/programs/"+id, object{"websiteUrl": "https://shop.example"}).wantStatus(http.StatusOK)
	})
	t.Run("status changes", func(t *testing.T) {
		wantStateInvalid(t, "pause")
		changeStatus(t, "activate").wantStatus(http.StatusOK).wantFields(object{"status": "active"})
		wantStateInvalid(t, "activate")
		changeStatus(t, "pause").wantStatus(http.StatusOK).wantFields(object{"status": "paused"})
		wantStateInvalid(t, "pause")
		changeStatus(t, "activate").wantStatus(http.StatusOK)
		changeStatus(t, "archive").wantStatus(http.StatusOK).wantFields(object{"status": "archived"})
		wantStateInvalid(t, "activate", "pause", "archive")
		merchant.get(t, "/api/v1/programs?status=archived").wantFields(object{"total": 1, "data.0.id": id})
	})
	t.Run("draft and paused programmes can be archived", func(t *testing.T) {
		draft := merchant.post(t, "/api/v1/programs", object{"name": "Draft"}).wantStatus(http.StatusCreated).text("id")
		merchant.post(t, "/api/v1/programs/"+draft+"/archive", nil).wantStatus(http.StatusOK)
		paused := merchant.createProgram(t, nil)
		merchant.post(t, "/api/v1/programs/"+paused+"/pause", nil).wantStatus(http.StatusOK)
		merchant.post(t, "/api/v1/programs/"+paused+"/archive", nil).wantStatus(http.StatusOK)
	})
}

// testProgramChanges tests PATCH. A field that is missing in the body is not changed. The
// value null sets a field to its default. Objects are merged. Arrays are replaced.
func testProgramChanges(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t)
	before := merchant.post(t, "/api/v1/programs", object{
		"name": "Before", "description": "Words", "websiteUrl": "https://shop.example", "allowedDomains": []string{"a.example", "b.example"},
		"attributionWindowDays": 7, "commissionRules": object{"percentage": 12.5, "holdPeriodDays": 14},
	}).wantStatus(http.StatusCreated)
	path := "/api/v1/programs/" + before.text("id")

	t.Run("an empty body changes nothing", func(t *testing.T) {
		for _, body := range []any{object{}, nil} {
			after := merchant.patch(t, path, body).wantStatus(http.StatusOK)
			for _, field := range []string{"name", "description", "allowedDomains", "attributionWindowDays", "commissionRules", "rulesVersion"} {
				after.wantFields(object{field: before.value(field)})
			}
		}
	})
	t.Run("a missing field is not changed, null sets the default", func(t *testing.T) {
		merchant.patch(t, path, object{"description": nil, "attributionWindowDays": nil}).wantStatus(http.StatusOK).
			wantFields(object{"description": nil, "attributionWindowDays": 60, "websiteUrl": "https://shop.example", "name": "Before"})
		merchant.patch(t, path, object{"name": nil}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
		merchant.patch(t, path, object{"name": "  "}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "name")
	})
	t.Run("objects are merged, and a change creates a new version of the rules", func(t *testing.T) {
		merchant.patch(t, path, object{"commissionRules": object{"percentage": 33.33}}).wantStatus(http.StatusOK).wantFields(object{
			"commissionRules.holdPeriodDays": 14, "commissionRules.autoApproval": true, "rulesVersion": 2,
		})
		merchant.patch(t, path, object{"commissionRules": object{"percentage": 33.33}}).wantFields(object{"rulesVersion": 2})
		merchant.patch(t, path, object{"name": "After"}).wantFields(object{"name": "After", "rulesVersion": 2})
		merchant.patch(t, path, object{"commissionRules": object{"commissionType": "flat", "flatAmountCents": 500}}).wantStatus(http.StatusOK).wantFields(object{
			"commissionRules.percentage": nil, "commissionRules.flatAmountCents": 500, "commissionRules.holdPeriodDays": 14, "rulesVersion": 3,
		})
		merchant.patch(t, path, object{"commissionRules": object{"holdPeriodDays": nil}}).
			wantFields(object{"commissionRules.holdPeriodDays": 30, "commissionRules.flatAmountCents": 500})
	})
	t.Run("arrays are replaced", func(t *testing.T) {
		merchant.patch(t, path, object{"allowedDomains": []string{"C.example"}}).wantStatus(http.StatusOK).wantFields(object{"allowedDomains": []any{"c.example"}})
		merchant.patch(t, path, object{"allowedDomains": []string{}}).wantFields(object{"allowedDomains": []any{"shop.example", "*.shop.example"}})
	})
	t.Run("fields that cannot be changed are rejected", func(t *testing.T) {
		for field, value := range (object{"status": "active", "mode": "test", "id": "x", "updateMask": "name", "programId": "x"}) {
			merchant.patch(t, path, object{field: value, "name": "Never"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
		}
		merchant.get(t, path).wantFields(object{"name": "After", "status": "draft", "mode": "live"})
	})
	t.Run("invalid values are rejected", func(t *testing.T) {
		for field, value := range (object{
			"slug": "Not A Slug", "websiteUrl": "javascript:alert(1)", "attributionWindowDays": 366, "attributionModel": "magic", "linkParam": "no spaces",
		}) {
			merchant.patch(t, path, object{field: value}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", field)
		}
		for field, value := range (object{"percentage": 100.01, "holdPeriodDays": 181, "flatAmountCents": -1, "netBasis": "nothing"}) {
			merchant.patch(t, path, object{"commissionRules": object{field: value}}).
				wantError(http.StatusBadRequest, "VALIDATION_ERROR", "commissionRules."+field)
		}
		merchant.post(t, "/api/v1/programs", object{"name": "Decimals", "commissionRules": object{"percentage": 12.345}}).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "commissionRules.percentage")
		merchant.post(t, "/api/v1/programs", object{"name": "Money", "currency": "XXZ"}).
			wantError(http.StatusBadRequest, "VALIDATION_ERROR", "currency")
	})
}
