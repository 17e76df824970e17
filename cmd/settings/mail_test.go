package settings_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/settings"
)

const (
	mailSecret = "TRIBUTARY_MAIL_WEBHOOK_SECRET=whsec_" + "c2VjcmV0"
	publicURL  = "TRIBUTARY_PUBLIC_URL=https://api.example.com"
	mailFrom   = "TRIBUTARY_MAIL_FROM=Acme <no-reply@example.com>"
	smtpURL    = "TRIBUTARY_SMTP_URL=smtp://user:hunter2@mail.example.com:587?tls=starttls"
)

func TestParse_ChecksMailSettings(t *testing.T) {
	for name, tc := range map[string]struct {
		lines []string
		fault string // the beginning of a line of the error; empty: none
	}{
		"no mail":                {nil, ""},
		"mail":                   {[]string{smtpURL, mailFrom, publicURL, "TRIBUTARY_MAIL_REPLY_TO=help@example.com", "TRIBUTARY_APP_URL=https://app.example.com/x/"}, ""},
		"provider":               {[]string{"TRIBUTARY_MAIL_PROVIDER=post-office-2", mailSecret + ",whsec_b3RoZXI="}, ""},
		"mail without sender":    {[]string{smtpURL, publicURL}, "TRIBUTARY_SMTP_URL requires TRIBUTARY_MAIL_FROM"},
		"mail without URL":       {[]string{smtpURL, mailFrom}, "TRIBUTARY_SMTP_URL requires TRIBUTARY_PUBLIC_URL"},
		"bad SMTP URL":           {[]string{"TRIBUTARY_SMTP_URL=https://user:hunter2@mail.example.com", mailFrom, publicURL}, "TRIBUTARY_SMTP_URL: "},
		"password not encoded":   {[]string{"TRIBUTARY_SMTP_URL=smtp://user:hunter2%@mail.example.com", mailFrom, publicURL}, "TRIBUTARY_SMTP_URL: "},
		"bad sender":             {[]string{"TRIBUTARY_MAIL_FROM=hunter2"}, "TRIBUTARY_MAIL_FROM: "},
		"bad reply address":      {[]string{"TRIBUTARY_MAIL_REPLY_TO=hunter2"}, "TRIBUTARY_MAIL_REPLY_TO: "},
		"public URL with path":   {[]string{publicURL + "/tributary"}, ""},
		"public URL with query":  {[]string{publicURL + "?hunter2"}, "TRIBUTARY_PUBLIC_URL: "},
		"public URL of a script": {[]string{"TRIBUTARY_PUBLIC_URL=javascript:hunter2"}, "TRIBUTARY_PUBLIC_URL: "},
		"portal URL with user":   {[]string{"TRIBUTARY_PORTAL_URL=https://hunter2@app.example.com"}, "TRIBUTARY_PORTAL_URL: "},
		"app URL with user":      {[]string{"TRIBUTARY_APP_URL=https://hunter2@app.example.com"}, "TRIBUTARY_APP_URL: "},
		"provider with a slash":  {[]string{"TRIBUTARY_MAIL_PROVIDER=a/hunter2"}, "TRIBUTARY_MAIL_PROVIDER: "},
		"long provider":          {[]string{"TRIBUTARY_MAIL_PROVIDER=" + strings.Repeat("a", 33)}, "TRIBUTARY_MAIL_PROVIDER: "},
		"secret without prefix":  {[]string{"TRIBUTARY_MAIL_WEBHOOK_SECRET=hunter2"}, "TRIBUTARY_MAIL_WEBHOOK_SECRET: "},
		"secret not in base64":   {[]string{"TRIBUTARY_MAIL_WEBHOOK_SECRET=whsec_hunter2%"}, "TRIBUTARY_MAIL_WEBHOOK_SECRET: "},
		"three secrets":          {[]string{mailSecret + ",whsec_aHVudGVyMg==,whsec_aHVudGVyMg=="}, "TRIBUTARY_MAIL_WEBHOOK_SECRET: "},
		"limit of the provider":  {[]string{"TRIBUTARY_LIMIT_MAIL_PROVIDER=0"}, "TRIBUTARY_LIMIT_MAIL_PROVIDER: "},
	} {
		_, err := settings.Parse[settings.Core](coreEnviron(tc.lines...))
		switch {
		case tc.fault == "" && err != nil:
			t.Errorf("%s: unexpected error %v", name, err)
		case tc.fault != "" && (err == nil || !strings.HasPrefix(err.Error(), tc.fault) || strings.Contains(err.Error(), "hunter2")):
			t.Errorf("%s: the error is %v, want %q without the value", name, err, tc.fault)
		}
	}
}

func TestLinks_Apps(t *testing.T) {
	for name, tc := range map[string]struct {
		links           settings.Links
		console, portal string
	}{
		"nothing is set":     {},
		"below the API":      {settings.Links{PublicURL: "https://api.example.com/"}, "https://api.example.com/console", "https://api.example.com/portal"},
		"own addresses":      {settings.Links{PublicURL: "https://api.example.com", AppURL: "https://app.example.com/", PortalURL: "https://partners.example.com"}, "https://app.example.com", "https://partners.example.com"},
		"without public URL": {settings.Links{PortalURL: "https://partners.example.com/"}, "", "https://partners.example.com"},
	} {
		if console, portal := tc.links.Apps(); console != tc.console || portal != tc.portal {
			t.Errorf("%s: Apps() = %q, %q, want %q, %q", name, console, portal, tc.console, tc.portal)
		}
	}
}
