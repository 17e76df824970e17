package notification_test

import (
	"log/slog"
	"testing"

	"google.golang.org/genproto/googleapis/api/httpbody"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	notificationservice "github.com/tributary-hq/tributary/server/notification"
	"github.com/tributary-hq/tributary/server/servertest"
	"github.com/tributary-hq/tributary/storage/postgres/pgtest"
)

const (
	urlEncoded = "application/x-www-form-urlencoded"
	oneClick   = "List-Unsubscribe=One-Click"
)

// multipartForm returns a form with one field, as mail programs send it.
func multipartForm(name, value string) string {
	return "--b\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value + "\r\n--b--\r\n"
}

func (f *fixture) unsubscribe(token, contentType, body string) (*affiliatev1.UnsubscribeResponse, error) {
	return f.service.Unsubscribe(f.Context(), &affiliatev1.UnsubscribeRequest{
		Token: token, Body: &httpbody.HttpBody{ContentType: contentType, Data: []byte(body)},
	})
}

func TestUnsubscribe_DisablesTheMailsOfACategory(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	partner := f.NewPartner("Jane")
	tokens := notification.NewUnsubscribeTokens(hashKeys)
	other := f.preferences(f.newReader(affiliate.RoleAdmin))

	payouts := tokens.Token(f.Owner, notification.CategoryPayouts)
	for range 2 { // the second call changes nothing
		got, err := f.unsubscribe(payouts, urlEncoded, oneClick)
		if err != nil || got.Category != affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_PAYOUTS || got.Label != "Payouts" {
			t.Fatalf("the response is %v, %v, want the category payouts", got, err)
		}
		if got := f.preferences(f.asOwner()); got != "EEEEEEFEEEFEF" {
			t.Errorf("the preferences are %s, want no mails about payouts", got)
		}
	}
	news := tokens.Token(partner, notification.CategoryProgrammeNews)
	if got, err := f.unsubscribe(news, "multipart/form-data; boundary=b", multipartForm("List-Unsubscribe", "One-Click")); err != nil || got.Label != "Programme news" {
		t.Fatalf("the response is %v, %v, want the category programme_news", got, err)
	}
	if got := f.preferences(servertest.AsPartner(t, partner, affiliate.ModeTest)); got != "EEEEEEEFE" {
		t.Errorf("the partner's preferences are %s, want no mails about programme news", got)
	}
	if got := f.preferences(f.newReader(affiliate.RoleAdmin)); got != other {
		t.Errorf("the preferences of other members have changed from %s to %s", other, got)
	}
}

func TestUnsubscribe_RefusesOtherTokensAndForms(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := notification.NewUnsubscribeTokens(hashKeys)
	token := tokens.Token(f.Owner, notification.CategoryPayouts)
	erased := f.NewPartner("Jane")
	f.Exec(`update users set erased_at = $2 where id = $1`, erased, f.Now())
	for _, tc := range []struct {
		name, token, contentType, body string
		want                           affiliate.Reason
	}{
		{"no token", "x", urlEncoded, oneClick, affiliate.ReasonUnsubscribeToken},
		{"a token with another key", notification.NewUnsubscribeTokens(affiliate.HashKeys{[]byte("other")}).Token(f.Owner, notification.CategoryPayouts), urlEncoded, oneClick, affiliate.ReasonUnsubscribeToken},
		{"a user who was erased", tokens.Token(erased, notification.CategoryPayouts), urlEncoded, oneClick, affiliate.ReasonUnsubscribeToken},
		{"JSON", token, "application/json", `{"List-Unsubscribe":"One-Click"}`, affiliate.ReasonUnsupportedMediaType},
		{"no content type", token, "", oneClick, affiliate.ReasonUnsupportedMediaType},
		{"no body", token, urlEncoded, "", affiliate.ReasonValidation},
		{"another value", token, urlEncoded, "List-Unsubscribe=Two-Clicks", affiliate.ReasonValidation},
		{"another field", token, "multipart/form-data; boundary=b", multipartForm("Unsubscribe", "One-Click"), affiliate.ReasonValidation},
		{"no boundary", token, "multipart/form-data", multipartForm("List-Unsubscribe", "One-Click"), affiliate.ReasonValidation},
		{"a form that ends early", token, "multipart/form-data; boundary=b", "--b\r\nContent-Disposition: form-data; name=\"List-Unsubscribe\"\r\n\r\nOne-Click", affiliate.ReasonValidation},
	} {
		_, err := f.unsubscribe(tc.token, tc.contentType, tc.body)
		t.Run(tc.name, func(t *testing.T) { pgtest.RequireRefusal(t, err, tc.want) })
	}
	if got := f.preferences(f.asOwner()); got != "EEEEEEFEEEEEF" {
		t.Errorf("the preferences have changed to %s", got)
	}
}

// The links of mails that were sent before a rotation of the hash key work, and so does the
// suppression of an address.
func TestUnsubscribe_AcceptsTokensOfEarlierHashKeys(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	keyA, keyB := hashKeys.First(), []byte("the next key of the tests")
	token := notification.NewUnsubscribeTokens(hashKeys).Token(f.Owner, notification.CategoryPayouts)
	var email string
	if err := f.SQL.QueryRow(t.Context(), `select email from users where id = $1`, f.Owner).Scan(&email); err != nil {
		t.Fatal(err)
	}
	f.suppress(email)
	use := func(keys ...[]byte) {
		f.service = notificationservice.New(notificationservice.Config{DB: f.DB, Log: slog.New(slog.DiscardHandler), HashKeys: keys, Now: f.Now})
	}
	for _, keys := range []affiliate.HashKeys{{keyB, keyA}, {keyB}} {
		use(keys...)
		known := len(keys) == 2
		if _, err := f.unsubscribe(token, urlEncoded, oneClick); (err == nil) != known {
			t.Errorf("with %d keys, the token of the key A returns %v", len(keys), err)
		}
		got, err := f.service.GetNotificationPreferences(f.asOwner(), &affiliatev1.GetNotificationPreferencesRequest{})
		if err != nil || got.EmailSuppressed != known {
			t.Errorf("with %d keys, emailSuppressed is %t, %v", len(keys), got.GetEmailSuppressed(), err)
		}
	}
	if _, err := f.unsubscribe(notification.NewUnsubscribeTokens(affiliate.HashKeys{keyB, keyA}).Token(f.Owner, notification.CategoryPayouts), urlEncoded, oneClick); err != nil {
		t.Errorf("a new token is not signed with the key B: %v", err)
	}
}
