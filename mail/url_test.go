package mail_test

import (
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/mail"
)

const password = "s3cret-password"

func TestCheckURL_Accepts(t *testing.T) {
	for _, url := range []string{
		"smtp://mail.example.com",
		"smtp://mail.example.com/",
		"smtp://user:" + password + "@mail.example.com:2525?tls=starttls",
		"smtp://user%40example.com:p%2Fss%23w%3Frd%25@mail.example.com?tls=implicit",
		"smtp://[::1]:25?tls=none",
	} {
		if err := mail.CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestCheckURL_RejectsWithoutPasswordInError(t *testing.T) {
	for _, tc := range []struct{ url, want string }{
		{"", "smtp://"},
		{"smtps://user:" + password + "@mail.example.com", "smtp://"},
		{"http://user:" + password + "@mail.example.com", "smtp://"},
		{"mail.example.com:587", "smtp://"},
		{"smtp://user:" + password + "@", "host"},
		{"smtp://user:" + password + "@mäil.example.com", "host"},
		{"smtp://user:%zz" + password + "@mail.example.com", "percent-encode"},
		{"smtp://user:" + password + "/@mail.example.com", "percent-encode"},
		{"smtp://user:" + password + "#@mail.example.com", "percent-encode"},
		{"smtp://user:" + password + "?@mail.example.com", "user"},
		{"smtp://user:" + password + "@mail.example.com/path", "path"},
		{"smtp://user:" + password + "@mail.example.com:port", "percent-encode"},
		{"smtp://user:" + password + "@mail.example.com:0", "port"},
		{"smtp://user:" + password + "@mail.example.com:70000", "port"},
		{"smtp://user@mail.example.com", "both a user and a password"},
		{"smtp://:" + password + "@mail.example.com", "both a user and a password"},
		{"smtp://user:a%0D%0A" + password + "@mail.example.com", "control characters"},
		{"smtp://user:a%00" + password + "@mail.example.com", "control characters"},
		{"smtp://user:" + password + "@mail.example.com?tls=ssl", "starttls, implicit or none"},
		{"smtp://user:" + password + "@mail.example.com?tls=", "starttls, implicit or none"},
		{"smtp://user:" + password + "@mail.example.com?tls=none&tls=implicit", "once"},
		{"smtp://user:" + password + "@mail.example.com?TLS=none", "only the parameter tls"},
		{"smtp://user:" + password + "@mail.example.com?tls=%zz", "query"},
	} {
		err := mail.CheckURL(tc.url)
		if err == nil {
			t.Errorf("%s: no error", tc.url)
			continue
		}
		if strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error %q has the password", tc.url, err)
		}
		if tc.want != "user" && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %q, want %q in it", tc.url, err, tc.want)
		}
	}
}

func TestNewSender_RejectsInvalidConfig(t *testing.T) {
	const url = "smtp://user:" + password + "@mail.example.com"
	for name, config := range map[string]mail.Config{
		"URL":              {URL: "smtp://user:" + password + "@mail.example.com?x=y", From: "a@example.com"},
		"no From":          {URL: url},
		"From line break":  {URL: url, From: "a@example.com\r\nBcc: b@example.com"},
		"two addresses":    {URL: url, From: "a@example.com, b@example.com"},
		"no domain":        {URL: url, From: "Acme"},
		"ReplyTo":          {URL: url, From: "a@example.com", ReplyTo: "b"},
		"local part limit": {URL: url, From: strings.Repeat("a", 65) + "@example.com"},
	} {
		_, err := mail.NewSender(config)
		if err == nil {
			t.Errorf("%s: no error", name)
		} else if strings.Contains(err.Error(), password) {
			t.Errorf("%s: the error %q has the password", name, err)
		}
	}
}
