package notification_test

import (
	"testing"

	"google.golang.org/genproto/googleapis/api/httpbody"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
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
	tokens := affiliate.NewUnsubscribeTokens(hashKey)
	other := f.preferences(f.newReader(affiliate.RoleAdmin))

	payouts := tokens.Token(f.Owner, affiliate.CategoryPayouts)
	for range 2 { // the second call changes nothing
		got, err := f.unsubscribe(payouts, urlEncoded, oneClick)
		if err != nil || got.Category != affiliatev1.NotificationCategory_NOTIFICATION_CATEGORY_PAYOUTS || got.Label != "Payouts" {
			t.Fatalf("the response is %v, %v, want the category payouts", got, err)
		}
		if got := f.preferences(f.asOwner()); got != "EEEEEEFEEEFEF" {
			t.Errorf("the preferences are %s, want no mails about payouts", got)
		}
	}
	news := tokens.Token(partner, affiliate.CategoryProgrammeNews)
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
	tokens := affiliate.NewUnsubscribeTokens(hashKey)
	token := tokens.Token(f.Owner, affiliate.CategoryPayouts)
	erased := f.NewPartner("Jane")
	f.Exec(`update users set erased_at = $2 where id = $1`, erased, f.Now())
	for _, tc := range []struct {
		name, token, contentType, body string
		want                           affiliate.Reason
	}{
		{"no token", "x", urlEncoded, oneClick, affiliate.ReasonUnsubscribeToken},
		{"a token with another key", affiliate.NewUnsubscribeTokens([]byte("other")).Token(f.Owner, affiliate.CategoryPayouts), urlEncoded, oneClick, affiliate.ReasonUnsubscribeToken},
		{"a user who was erased", tokens.Token(erased, affiliate.CategoryPayouts), urlEncoded, oneClick, affiliate.ReasonUnsubscribeToken},
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
