package e2e_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

const (
	merchantFeed = "/api/v1/notifications"
	partnerFeed  = "/api/v1/partner/notifications"
)

// wantNewest checks the newest notification of a category in the feed.
func (a caller) wantNewest(t *testing.T, feed, category string, want object) response {
	t.Helper()
	fields := object{"data.0.category": category}
	for field, value := range want {
		fields["data.0."+field] = value
	}
	return a.get(t, feed+"?category="+category).wantStatus(http.StatusOK).wantFields(fields)
}

// wantEmpty checks that the feed contains no notification of a category.
func (a caller) wantEmpty(t *testing.T, feed, category string) {
	t.Helper()
	a.get(t, feed+"?category="+category).wantStatus(http.StatusOK).wantFields(object{"total": 0, "data": []any{}})
}

// testNotifications follows a partner from the application to the payout, and checks the
// notifications that the merchant and the partner get at each step.
func testNotifications(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	f.partner.patch(t, "/api/v1/partner/payout-method", object{"method": "paypal", "account": "pia@example.com", "password": password}).wantStatus(http.StatusOK)
	name := f.merchant.get(t, f.programPath()).text("name")
	partnerName := f.merchant.get(t, f.participantPath()).text("partnerName")

	// The partner has applied, and the merchant has approved the application.
	f.merchant.wantNewest(t, merchantFeed, "partner_applications", object{
		"type": "participant.applied", "title": "New application", "body": partnerName + " applied to " + name + ".", "severity": "info",
		"resource": map[string]any{"type": "participant", "id": f.participant, "programId": f.program},
		"mode":     "live", "read": false, "readAt": nil, "dismissedAt": nil,
		"actionUrl": examplePublicURL + "/console/programs/" + f.program + "/partners/" + f.participant,
	})
	f.partner.wantNewest(t, partnerFeed, "application_status", object{
		"type": "participant.approved", "body": "You take part in " + name + ". You can share your link now.", "resource.programId": f.program,
	})

	// A sale creates a conversion and a commission. The merchant gets a notification about
	// each, and the partner about the commission.
	sale := f.reportSale(t, f.click(t), nil)
	commission := sale.text("commission.id")
	f.merchant.wantNewest(t, merchantFeed, "conversions", object{
		"type": "conversion.created", "body": "A purchase of 100.00 USD was recorded and credited to " + partnerName + ".", "resource.id": sale.text("id"),
	})
	f.merchant.wantNewest(t, merchantFeed, "commissions", object{
		"type": "commission.created", "body": partnerName + " earned 20.00 USD in " + name + ".", "resource.id": commission,
	})
	f.partner.wantNewest(t, partnerFeed, "commissions", object{
		"type": "commission.created", "body": "You earned 20.00 USD in " + name + ".", "resource.id": commission,
	})

	// The merchant approves the commission. Only the partner needs to know.
	f.merchant.patch(t, f.commissionPath(commission)+"/approve", nil).wantStatus(http.StatusOK)
	f.partner.wantNewest(t, partnerFeed, "commissions", object{"type": "commission.approved", "body": "Your commission of 20.00 USD in " + name + " was approved."})
	f.merchant.wantNewest(t, merchantFeed, "commissions", object{"type": "commission.created"})
	rejected := f.earnCommission(t)
	f.merchant.patch(t, f.commissionPath(rejected)+"/reject", object{"reason": "They know each other."}).wantStatus(http.StatusOK)
	f.partner.wantNewest(t, partnerFeed, "commissions", object{"type": "commission.rejected", "body": "Your commission of 20.00 USD in " + name + " was rejected."})

	// A refund reduces the commission.
	f.refund(t, sale.text("external_transaction_id"), object{"amount_cents": 3333}).wantStatus(http.StatusCreated)
	f.merchant.wantNewest(t, merchantFeed, "refunds_disputes", object{
		"type": "conversion.refunded", "body": "33.33 USD of a payment of 100.00 USD was refunded so far. It was credited to " + partnerName + ".",
	})
	f.partner.wantNewest(t, partnerFeed, "commissions", object{
		"type": "commission.refunded", "body": "Your commission of 20.00 USD in " + name + " was reduced to 13.33 USD, because the sale changed.",
	})

	// A payout fails and is then paid. A failed payout is critical for both sides.
	f.merchant.patch(t, f.programPath(), object{"minPayoutCents": 100, "payoutTermDays": 0}).wantStatus(http.StatusOK)
	batch := f.createBatch(t, object{}).wantStatus(http.StatusCreated).text("id")
	f.merchant.post(t, batchesPath+"/"+batch+"/confirm", nil).wantStatus(http.StatusOK)
	f.merchant.post(t, batchesPath+"/"+batch+"/process", nil).wantStatus(http.StatusOK)
	payout := f.merchant.get(t, "/api/v1/payouts?batchId="+batch).text("data.0.id")
	f.partner.wantNewest(t, partnerFeed, "payouts", object{"type": "payout.processing", "body": "A payout of 13.33 USD from " + name + " is being sent."})
	f.merchant.patch(t, "/api/v1/payouts/"+payout+"/mark-failed", object{"reason": "The account is closed"}).wantStatus(http.StatusOK)
	f.merchant.wantNewest(t, merchantFeed, "payouts", object{
		"type": "payout.failed", "severity": "critical", "body": "The payout of 13.33 USD to " + partnerName + " could not be paid: The account is closed.",
	})
	f.partner.wantNewest(t, partnerFeed, "payout_problems", object{
		"type": "payout.failed", "severity": "critical", "body": "A payout of 13.33 USD from " + name + " could not be paid: The account is closed. Check your payout method.",
	})
	f.merchant.patch(t, "/api/v1/payouts/"+payout+"/retry", nil).wantStatus(http.StatusOK)
	f.merchant.patch(t, "/api/v1/payouts/"+payout+"/mark-paid", object{"reference": "transfer-1"}).wantStatus(http.StatusOK)
	f.merchant.wantNewest(t, merchantFeed, "payouts", object{"type": "payout.paid", "body": "The payout of 13.33 USD to " + partnerName + " was paid."})
	f.partner.wantNewest(t, partnerFeed, "payouts", object{"type": "payout.paid", "body": name + " paid you 13.33 USD."})

	// All of this happened in live mode.
	for _, category := range []string{"partner_applications", "conversions", "commissions", "payouts"} {
		f.merchant.inMode("test").wantEmpty(t, merchantFeed, category)
	}
	f.partner.inMode("test").wantEmpty(t, partnerFeed, "commissions")
}

// testNotificationsReadAndDismiss shows that each member has an own read state, and that
// a notification that one member dismisses disappears for all.
func testNotificationsReadAndDismiss(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	manager := f.merchant.addMember(t, "manager").inMode("test")
	f.earnCommission(t)
	unread := func(a caller, want int) {
		t.Helper()
		a.get(t, merchantFeed+"/unread-count").wantStatus(http.StatusOK).wantFields(object{"count": want})
	}
	all := int(manager.get(t, merchantFeed).wantStatus(http.StatusOK).number("total"))
	unread(manager, all)
	id := manager.get(t, merchantFeed+"?category=commissions").text("data.0.id")
	manager.post(t, merchantFeed+"/"+id+"/read", nil).wantStatus(http.StatusOK).wantFields(object{"id": id, "read": true})
	unread(manager, all-1)
	f.merchant.wantNewest(t, merchantFeed, "commissions", object{"id": id, "read": false})

	f.merchant.post(t, merchantFeed+"/"+id+"/dismiss", nil).wantStatus(http.StatusOK).wantFields(object{"id": id, "read": false})
	for _, a := range []caller{f.merchant, manager} {
		a.wantEmpty(t, merchantFeed, "commissions")
	}
	manager.post(t, merchantFeed+"/read-all", object{"category": "conversions"}).wantStatus(http.StatusOK).wantFields(object{"updated": 1})
	unread(manager, all-2)
	manager.post(t, merchantFeed+"/read-all", object{"before": sys.clock.now().Add(time.Minute).UTC().Format(time.RFC3339)}).
		wantStatus(http.StatusOK).wantFields(object{"updated": all - 2})
	manager.post(t, merchantFeed+"/dismiss-read", object{}).wantStatus(http.StatusOK).wantFields(object{"updated": all - 1})
	manager.get(t, merchantFeed).wantStatus(http.StatusOK).wantFields(object{"total": 0, "page": 1, "limit": 20})

	manager.post(t, merchantFeed+"/read-all", object{"category": "bogus"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "category")
	manager.post(t, merchantFeed+"/read-all", object{"before": "yesterday"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "before")
	manager.get(t, merchantFeed+"?category=bogus&unread=maybe&pageSize=0").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "category", "pageSize", "unread")
}

// testNotificationsPreferences shows which categories a user can disable.
func testNotificationsPreferences(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.earnCommission(t)
	preferences := merchantFeed + "/preferences"
	update := func(changes ...object) response {
		t.Helper()
		return f.merchant.patch(t, preferences, object{"categories": changes})
	}
	f.merchant.get(t, preferences).wantStatus(http.StatusOK).wantFields(object{
		"categories.0": map[string]any{"category": "security", "label": "Security", "protected": true, "email": true, "inApp": true}, "emailSuppressed": false,
	})
	update(object{"category": "commissions", "email": false, "inApp": false}).wantStatus(http.StatusOK).wantFields(object{
		"categories.7": map[string]any{"category": "commissions", "label": "Commissions", "protected": false, "email": false, "inApp": false},
	})
	f.merchant.wantEmpty(t, merchantFeed, "commissions")
	update(object{"category": "payouts", "email": false}, object{"category": "security", "email": true}).wantError(http.StatusConflict, "NOTIFICATION_CATEGORY_PROTECTED")
	update(object{"category": "programme_news", "email": false}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "categories[0].category")
	update(object{"category": "payouts", "email": "yes"}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "categories[0].email")
	update().wantError(http.StatusBadRequest, "VALIDATION_ERROR", "categories")
	f.merchant.get(t, preferences).wantStatus(http.StatusOK).wantFields(object{
		"categories.10": map[string]any{"category": "payouts", "label": "Payouts", "protected": false, "email": true, "inApp": true},
	})
}

// testNotificationsAnnouncement sends news to the partners of a programme.
func testNotificationsAnnouncement(t *testing.T, sys *system) {
	f := sys.newFixture(t, "live", nil)
	applicant := sys.newPartner(t).inMode("live")
	applicant.post(t, f.applyPath(), nil).wantStatus(http.StatusCreated)
	path := f.programPath() + "/announcements"
	news := object{"title": " New beans ", "body": "From Ethiopia.\nShare your link!"}
	announced := f.merchant.post(t, path, news).wantStatus(http.StatusCreated).wantFields(object{
		"programId": f.program, "title": "New beans", "body": "From Ethiopia.\nShare your link!", "recipients": 1,
	})
	f.partner.wantNewest(t, partnerFeed, "programme_news", object{
		"type": "program.announcement", "title": "New beans", "body": "From Ethiopia.\nShare your link!", "resource.id": announced.text("id"), "resource.programId": f.program,
	})
	applicant.wantEmpty(t, partnerFeed, "programme_news")

	f.merchant.post(t, path, object{"title": " ", "body": ""}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body", "title")
	for range 4 {
		f.merchant.post(t, path, news).wantStatus(http.StatusCreated)
	}
	if wait := f.merchant.post(t, path, news).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED").retryAfter(); wait < 23*time.Hour || wait > 24*time.Hour {
		t.Errorf("Retry-After of the sixth announcement is %s, want about 24 hours", wait)
	}
	f.merchant.post(t, f.programPath()+"/pause", nil).wantStatus(http.StatusOK)
	f.merchant.post(t, path, news).wantError(http.StatusConflict, "PROGRAM_STATE_INVALID")
}

// testUnsubscribe sends the requests of mail programs (RFC 8058).
func testUnsubscribe(t *testing.T, sys *system) {
	merchant, partner := sys.newMerchant(t), sys.newPartner(t)
	program := sys.client().withHeader("Content-Type", "application/x-www-form-urlencoded")
	for _, tc := range []struct {
		caller
		preferences, position string
		category              notification.Category
	}{
		{merchant, merchantFeed + "/preferences", "10", notification.CategoryPayouts},
		{partner, partnerPreferences, "5", notification.CategoryCommissions},
	} {
		email, category := "categories."+tc.position+".email", "categories."+tc.position+".category"
		tc.get(t, tc.preferences).wantStatus(http.StatusOK).wantFields(object{category: string(tc.category), email: true})
		link := unsubscribePath + unsubscribeToken(tc.caller, tc.category)
		// Opening the link changes nothing.
		page := sys.client().get(t, link).wantStatus(http.StatusOK)
		if contentType := page.header.Get("Content-Type"); contentType != "text/html; charset=utf-8" {
			t.Errorf("GET of the link has the type %s, want a page", contentType)
		}
		tc.get(t, tc.preferences).wantFields(object{email: true})
		for range 2 {
			program.post(t, link, oneClickForm).wantStatus(http.StatusOK).wantFields(object{"category": string(tc.category)})
		}
		tc.get(t, tc.preferences).wantFields(object{email: false})
		boundary := program.withHeader("Content-Type", "multipart/form-data; boundary=b")
		boundary.post(t, link, "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click\r\n--b--\r\n").wantStatus(http.StatusOK)
	}
	link := unsubscribePath + unsubscribeToken(merchant, notification.CategoryCommissions)
	program.post(t, unsubscribePath+"x", oneClickForm).wantError(http.StatusBadRequest, "UNSUBSCRIBE_TOKEN_INVALID")
	program.post(t, link, "List-Unsubscribe=No").wantError(http.StatusBadRequest, "VALIDATION_ERROR", "body")
	sys.client().post(t, link, object{}).wantError(http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE")
	merchant.get(t, merchantFeed+"/preferences").wantFields(object{"categories.7.category": "commissions", "categories.7.email": true})
}
