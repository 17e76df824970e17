package mailsink

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// response is a response that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

// request sends a request. If host is not empty, it is the Host header.
func (r running) request(t *testing.T, method, path, host string) response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, r.url+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response{resp.StatusCode, resp.Header, string(body)}
}

// subjects returns the subjects of the mails in a response of /api/messages.
func subjects(t *testing.T, body string) string {
	t.Helper()
	var messages []Message
	if err := json.Unmarshal([]byte(body), &messages); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var all []string
	for _, m := range messages {
		all = append(all, m.Subject)
	}
	return strings.Join(all, " ")
}

func TestAPI_ListsNewestFirst(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	if got := r.request(t, http.MethodGet, "/api/messages", ""); got.body != "[]\n" {
		t.Errorf("an empty sink returns %q, want an empty array", got.body)
	}
	r.send(t, "Ada@example.com", lines("Subject: first", "", ""))
	r.send(t, "bob@example.com", lines("Subject: second", "", ""))
	r.send(t, "ada+tag@example.com", lines("Subject: third", "", ""))
	r.send(t, "ada@EXAMPLE.com", lines("Subject: fourth", "", ""))
	for query, want := range map[string]string{
		"":                             "fourth third second first",
		"?to=ada@example.com":          "fourth first",
		"?to=ada%2Btag@example.com":    "third",
		"?to=ada":                      "",
		"?to=%3Cada@example.com%3E":    "",
		"?to=nobody@example.com":       "",
		"?to=BOB%40EXAMPLE.COM":        "second",
		"?to=bob@example.com%00":       "",
		"?to=%D0%B0da@example.com":     "", // the first letter is Cyrillic
		"?to=bob@example.com%20%20%20": "",
	} {
		got := r.request(t, http.MethodGet, "/api/messages"+query, "")
		if list := subjects(t, got.body); got.status != http.StatusOK || list != want {
			t.Errorf("GET /api/messages%s: %d %q, want %q", query, got.status, list, want)
		}
	}
}

func TestAPI_ReturnsMailAsJSON(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("From: Shop <mail@shop.example>", "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=", "Content-Type: text/html; charset=utf-8", "", "<p>Hi"))
	got := r.request(t, http.MethodGet, "/api/messages/1", "")
	want := regexp.MustCompile(`^` + regexp.QuoteMeta(`{"id":"1","to":"ada@example.com","from":"Shop <mail@shop.example>","subject":"Grüße","createdAt":"`) +
		`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z` + regexp.QuoteMeta(`","headers":{"Content-Type":"text/html; charset=utf-8","From":"Shop <mail@shop.example>",`+
		`"Subject":"=?utf-8?q?Gr=C3=BC=C3=9Fe?="},"text":"","html":"<p>Hi\n"}`) + `\n$`)
	if !want.MatchString(got.body) {
		t.Errorf("the mail is\n%s\nwant a match of\n%s", got.body, want)
	}
	for name, want := range map[string]string{
		"Content-Type":                "application/json",
		"X-Content-Type-Options":      "nosniff",
		"Cache-Control":               "no-store",
		"Access-Control-Allow-Origin": "",
	} {
		if value := got.header.Get(name); value != want {
			t.Errorf("%s is %q, want %q", name, value, want)
		}
	}
}

func TestAPI_DeletesAllMails(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("Subject: old", "", ""))
	if got := r.request(t, http.MethodDelete, "/api/messages", ""); got.status != http.StatusNoContent || got.body != "" {
		t.Errorf("DELETE /api/messages: %d %q, want 204", got.status, got.body)
	}
	if got := r.request(t, http.MethodGet, "/api/messages", ""); got.body != "[]\n" {
		t.Errorf("after the deletion the mails are %s, want none", got.body)
	}
	r.send(t, "ada@example.com", lines("Subject: new", "", ""))
	if got := r.Messages(""); len(got) != 1 || got[0].ID != "2" {
		t.Errorf("the mail after the deletion is %v, want the id 2", got)
	}
}

func TestHandler_RejectsInvalidRequests(t *testing.T) {
	t.Parallel()
	r := start(t, 10)
	r.send(t, "ada@example.com", lines("Subject: secret", "", ""))
	for name, test := range map[string]struct {
		method, path, host string
		want               int
	}{
		"unknown parameter":             {http.MethodGet, "/api/messages?form=a", "", http.StatusBadRequest},
		"empty parameter":               {http.MethodGet, "/api/messages?to=", "", http.StatusBadRequest},
		"repeated parameter":            {http.MethodGet, "/api/messages?to=a&to=b", "", http.StatusBadRequest},
		"malformed query":               {http.MethodGet, "/api/messages?to=%zz", "", http.StatusBadRequest},
		"parameter of a mail":           {http.MethodGet, "/api/messages/1?to=a", "", http.StatusBadRequest},
		"parameter of a deletion":       {http.MethodDelete, "/api/messages?to=a", "", http.StatusBadRequest},
		"parameter of the list page":    {http.MethodGet, "/?q=a", "", http.StatusBadRequest},
		"parameter of the mail page":    {http.MethodGet, "/messages/1?q=a", "", http.StatusBadRequest},
		"unknown mail":                  {http.MethodGet, "/api/messages/2", "", http.StatusNotFound},
		"page of an unknown mail":       {http.MethodGet, "/messages/2", "", http.StatusNotFound},
		"unknown path":                  {http.MethodGet, "/api", "", http.StatusNotFound},
		"wrong method":                  {http.MethodPost, "/api/messages", "", http.StatusMethodNotAllowed},
		"deletion of one mail":          {http.MethodDelete, "/api/messages/1", "", http.StatusMethodNotAllowed},
		"wrong method of the list page": {http.MethodPost, "/", "", http.StatusMethodNotAllowed},
		"host of a website":             {http.MethodGet, "/api/messages", "attacker.example:8084", http.StatusForbidden},
		"host that begins as loopback":  {http.MethodGet, "/api/messages", "127.0.0.1.attacker.example", http.StatusForbidden},
		"host of another machine":       {http.MethodGet, "/", "192.0.2.1:8084", http.StatusForbidden},
		"host localhost":                {http.MethodGet, "/", "LOCALHOST:8084", http.StatusOK},
		"host with IPv6":                {http.MethodGet, "/", "[::1]:8084", http.StatusOK},
		"host with IPv6, no port":       {http.MethodGet, "/", "[::1]", http.StatusOK},
		"host without a port":           {http.MethodGet, "/", "127.0.0.1", http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := r.request(t, test.method, test.path, test.host)
			if got.status != test.want {
				t.Errorf("%s %s: %d, want %d: %s", test.method, test.path, got.status, test.want, got.body)
			}
			if test.want != http.StatusOK && strings.Contains(got.body, "secret") {
				t.Errorf("an error contains the subject of a mail: %s", got.body)
			}
		})
	}
}
