package landing_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

func TestPost_StoresForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	if r := f.post(waitlist, body(waitlist, map[string]any{"email": " \tAda.Byron@Example.COM\n", "unknown": []int{1}})); r.status != 201 || r.body != "" {
		t.Errorf("the waitlist responded with %d %q, want 201 and no body", r.status, r.body)
	}
	if got := f.emails(); !slices.Equal(got, []string{"ada.byron@example.com"}) {
		t.Errorf("the waitlist has %q, want the address in lower case without white space", got)
	}
	r := f.post(contact, body(contact, map[string]any{"name": " Ada ", "email": " Ada.Byron@Example.COM ", "message": "\n First line\r\nsecond line <b>\t"}))
	if r.status != 201 || r.body != "" {
		t.Errorf("the contact form responded with %d %q, want 201 and no body", r.status, r.body)
	}
	got := f.contacts()
	if len(got) != 1 || got[0].Name != "Ada" || got[0].Email != "Ada.Byron@Example.COM" || got[0].Message != "First line\r\nsecond line <b>" ||
		!got[0].CreatedAt.Equal(f.clock.now()) || got[0].MailedAt != nil {
		t.Errorf("the stored messages are %+v, want one without white space around its fields", got)
	}
}

// Whether the address is on the waitlist must not be visible.
func TestWaitlist_RepeatedSignupHasSameResponse(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{origins: []string{"https://www.example.com"}})
	var first http.Header
	for i, email := range []string{"ada@example.com", "ada@example.com", " ADA@example.com "} {
		r := f.post(waitlist, body(waitlist, map[string]any{"email": email}), "Origin: https://www.example.com", "X-Request-Id: same")
		r.header.Del("Date")
		if i == 0 {
			first = r.header
		}
		if r.status != 201 || r.body != "" || fmt.Sprint(r.header) != fmt.Sprint(first) {
			t.Errorf("sign-up %d: status %d, body %q, headers\n%v\nwant the headers of the first\n%v", i, r.status, r.body, r.header, first)
		}
	}
	if first.Get("Content-Length") != "0" || first.Get("Content-Type") != "" {
		t.Errorf("the headers are %v, want Content-Length 0 and no Content-Type", first)
	}
	if got := f.emails(); len(got) != 1 {
		t.Errorf("the waitlist has %q, want one address", got)
	}
}

func TestWaitlist_ParallelSignupsAreOneRow(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	var running sync.WaitGroup
	for range 20 {
		running.Go(func() {
			if r := f.post(waitlist, body(waitlist, nil)); r.status != 201 || r.body != "" {
				t.Errorf("status %d, body %q, want 201 and no body", r.status, r.body)
			}
		})
	}
	running.Wait()
	if got := f.emails(); !slices.Equal(got, []string{"ada@example.com"}) {
		t.Errorf("the waitlist has %q, want one address", got)
	}
}

func TestPost_AntiSpam(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	const (
		both    = waitlist + " " + contact
		nowhere = ""
	)
	for _, test := range []struct {
		field, value string // value is JSON; empty: the field is missing
		accepted     string // the paths that accept the form
	}{
		{"elapsedMs", `1499`, nowhere},
		{"elapsedMs", `1499.9`, nowhere},
		{"elapsedMs", `1500`, both},
		{"elapsedMs", `1500.0`, both},
		{"elapsedMs", `1.5e3`, both},
		{"elapsedMs", `15E+2`, both},
		{"elapsedMs", `1500.5`, contact},
		{"elapsedMs", `1800000`, both},
		{"elapsedMs", `18e5`, both},
		{"elapsedMs", `1800000.5`, nowhere},
		{"elapsedMs", `1800001`, nowhere},
		{"elapsedMs", `0`, nowhere},
		{"elapsedMs", `-1500`, nowhere},
		{"elapsedMs", `1e300`, nowhere},
		{"elapsedMs", `1e999`, nowhere},
		{"elapsedMs", `99999999999999999999`, nowhere},
		{"elapsedMs", `"1500"`, nowhere},
		{"elapsedMs", `true`, nowhere},
		{"elapsedMs", `null`, nowhere},
		{"elapsedMs", `[1500]`, nowhere},
		{"elapsedMs", `{"ms":1500}`, nowhere},
		{"elapsedMs", ``, nowhere},
		{"website", `""`, both},
		{"website", ``, both},
		{"website", `null`, both},
		{"website", `"https://spam.example"`, nowhere},
		{"website", `" "`, nowhere},
		{"website", `"\u0000"`, nowhere},
		{"website", `0`, nowhere},
		{"website", `false`, nowhere},
		{"website", `[]`, nowhere},
		{"website", `{}`, nowhere},
	} {
		for _, path := range []string{waitlist, contact} {
			changes := map[string]any{test.field: nil}
			if test.value != "" {
				changes[test.field] = raw(test.value)
			}
			want := 400
			if strings.Contains(" "+test.accepted+" ", " "+path+" ") {
				want = 201
			}
			r := f.post(path, body(path, changes))
			if r.status != want || want == 400 && r.code(t) != "ANTI_SPAM_FAILED" {
				t.Errorf("%s with %s %s: %d %s, want %d", path, test.field, test.value, r.status, r.body, want)
			}
		}
	}
	if got := f.emails(); len(got) != 1 {
		t.Errorf("the waitlist has %q, want only the accepted address", got)
	}
	if got := len(f.contacts()); got != 10 {
		t.Errorf("%d contact messages are stored, want the 10 accepted ones", got)
	}
}

func TestPost_Email(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	long := func(n int) string {
		return strings.Repeat("a", 64) + "@" + strings.Repeat("b", n-64-len("@.example")) + ".example"
	}
	foreign := strings.Repeat("ü", 320-len("@example.com")) + "@example.com"
	for _, test := range []struct {
		email any
		valid bool
	}{
		{"ada@example.com", true},
		{"ada+tag_1!#$%&'*-/=?^`{|}~@mail.example.co.uk", true},
		{"  ada@example.com\r\n", true},
		{"ada@bücher.example", true},
		{"ada@xn--bcher-kva.example", true},
		{"jürgen@例え.テスト", true},
		{long(320), true},
		{" " + long(320) + " ", true},
		{foreign, true}, // 320 characters, 628 bytes
		{long(321), false},
		{"ü" + foreign, false},
		{"", false},
		{" ", false},
		{"ada", false},
		{"ada@", false},
		{"@example.com", false},
		{"ada@localhost", false},
		{"ada@@example.com", false},
		{"ada byron@example.com", false},
		{"ada@exa mple.com", false},
		{"ada@.example.com", false},
		{"ada@example..com", false},
		{"ada@example.com.", false},
		{"ada@-example.com", false},
		{"ada@[192.0.2.1]", false},
		{"Ada <ada@example.com>", false},
		{"<ada@example.com>", false},
		{"ada@example.com (comment)", false},
		{`"ada"@example.com`, false},
		{"ada@example.com, bert@example.com", false},
		{"ada@example.com\r\nBcc: victim@example.com", false},
		{"ada\n@example.com", false},
		{"ada@example.com\u0000", false},
		{raw(`"ada\u0000@example.com"`), false},
		{raw(`"ada\ud800@example.com"`), false},
		{5, false},
		{true, false},
		{raw(`null`), false},
		{[]string{"ada@example.com"}, false},
		{map[string]any{"a": "ada@example.com"}, false},
		{nil, false}, // the field is missing
	} {
		for _, path := range []string{waitlist, contact} {
			r := f.post(path, body(path, map[string]any{"email": test.email}))
			want := 400
			if test.valid {
				want = 201
			}
			if r.status != want || !test.valid && r.code(t) != "INVALID_EMAIL" {
				t.Errorf("%s with the email %q: %d %s, want %d", path, test.email, r.status, r.body, want)
			}
		}
	}
	for _, email := range f.emails() {
		if email != strings.ToLower(strings.TrimSpace(email)) {
			t.Errorf("the waitlist has %q, want lower case without white space", email)
		}
	}
}

func TestContact_NameAndMessage(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	for _, test := range []struct {
		field string
		value any
		valid bool
	}{
		{"name", "A", true},
		{"name", strings.Repeat("n", 100), true},
		{"name", " " + strings.Repeat("😀", 100) + "\u00a0", true},
		{"name", "Ada\r\nBcc: victim@example.com", true}, // text; the mail has no such header
		{"name", "", false},
		{"name", " \t\r\n", false},
		{"name", strings.Repeat("n", 101), false},
		{"name", raw(`"\u0000"`), false},
		{"name", raw(`"Ada\u0000"`), false},
		{"name", raw(`"Ada \udc00"`), false},
		{"name", raw(`null`), false},
		{"name", nil, false},
		{"name", 12345, false},
		{"name", []string{"Ada"}, false},
		{"message", strings.Repeat("m", 10), true},
		{"message", strings.Repeat("m", 5000), true},
		{"message", "\n" + strings.Repeat("😀", 5000) + "\n", true},
		{"message", raw(`"` + strings.Repeat(`\ud83d\ude00`, 5000) + `"`), true}, // the longest spelling
		{"message", strings.Repeat("m", 9), false},
		{"message", " " + strings.Repeat("m", 9) + " ", false},
		{"message", strings.Repeat("m", 5001), false},
		{"message", raw(`"a message with \u0000"`), false},
		{"message", raw(`null`), false},
		{"message", nil, false},
		{"message", 1234567890123, false},
		{"message", map[string]any{"text": "0123456789"}, false},
	} {
		before := len(f.contacts())
		r := f.post(contact, body(contact, map[string]any{test.field: test.value}))
		want, stored := 400, 0
		if test.valid {
			want, stored = 201, 1
		}
		if r.status != want || !test.valid && (r.code(t) != "INVALID_REQUEST" || !strings.Contains(r.body, test.field+" must have ")) {
			t.Errorf("%s %.60q: %d %s, want %d", test.field, test.value, r.status, r.body, want)
		}
		if got := len(f.contacts()) - before; got != stored {
			t.Errorf("%s %.60q: %d messages were stored, want %d", test.field, test.value, got, stored)
		}
	}
}

// The first failed check determines the error.
func TestPost_OrderOfChecks(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	for _, test := range []struct {
		name, body, want string
	}{
		{"not JSON", `{"website":"spam","email":"no"`, "INVALID_REQUEST"},
		{"spam", `{"website":"spam","email":"no"}`, "ANTI_SPAM_FAILED"},
		{"too fast", `{"elapsedMs":1,"email":"no"}`, "ANTI_SPAM_FAILED"},
		{"email", `{"elapsedMs":1500,"email":"no","name":""}`, "INVALID_EMAIL"},
		{"name", `{"elapsedMs":1500,"email":"a@example.com","name":"","message":""}`, "INVALID_REQUEST"},
		{"message", `{"elapsedMs":1500,"email":"a@example.com","name":"Ada","message":""}`, "INVALID_REQUEST"},
	} {
		if r := f.post(contact, test.body); r.status != 400 || r.code(t) != test.want {
			t.Errorf("%s: %d %s, want %s", test.name, r.status, r.body, test.want)
		}
	}
}

func TestPost_RejectsMalformedBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t, options{})
	valid := body(waitlist, nil)
	rest := strings.TrimPrefix(valid, "{")
	for name, text := range map[string]string{
		"empty":                  "",
		"white space":            " \n",
		"null":                   "null",
		"array":                  "[" + valid + "]",
		"string":                 `"text"`,
		"number":                 "1500",
		"cut off":                valid[:len(valid)-1],
		"trailing text":          valid + "x",
		"two objects":            valid + valid,
		"trailing comma":         valid[:len(valid)-1] + ",}",
		"comment":                "{/* */" + rest,
		"single quotes":          strings.ReplaceAll(valid, `"`, "'"),
		"key without quotes":     "{a:1," + rest,
		"NaN":                    `{"a":NaN,` + rest,
		"leading zero":           `{"a":01,` + rest,
		"line break in a string": "{\"a\":\"\n\"," + rest,
		"NUL byte":               "{\"a\":\"\x00\"," + rest,
		"invalid UTF-8":          "{\"a\":\"\xff\"," + rest,
		"invalid UTF-8 in a key": "{\"\xff\":1," + rest,
		"UTF-16":                 "\xfe\xff\x00{\x00}",
		"byte order mark":        "\ufeff" + valid,
		"repeated key":           `{"email":"bert@example.com",` + rest,
		"repeated unknown key":   `{"a":1,"a":1,` + rest,
		"escaped repeated key":   `{"\u0065mail":"bert@example.com",` + rest,
		"nested too deeply":      `{"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "," + rest,
		"many brackets":          strings.Repeat(`{"a":`, 10_000),
	} {
		for _, path := range []string{waitlist, contact} {
			if r := f.post(path, text); r.status != 400 || r.code(t) != "INVALID_REQUEST" {
				t.Errorf("%s: %s responded with %d %s, want INVALID_REQUEST", name, path, r.status, r.body)
			}
		}
	}
	for name, text := range map[string]string{
		"nested":           `{"a":[[{"b":{"c":[1,-2.5e3,true,false,null,"\u00e9\n"]}}]],` + rest,
		"white space":      " \t\r\n" + strings.ReplaceAll(valid, ",", " ,\n") + "\n",
		"key of any case":  `{"Email":5,"ELAPSEDMS":1,` + rest,
		"key with a proto": `{"elapsed_ms":1,` + rest,
		"escaped key":      strings.Replace(valid, `"email"`, `"\u0065mail"`, 1),
	} {
		if r := f.post(waitlist, text); r.status != 201 {
			t.Errorf("%s: %d %s, want 201", name, r.status, r.body)
		}
	}
	if got := f.emails(); !slices.Equal(got, []string{"ada@example.com"}) {
		t.Errorf("the waitlist has %q, want only the valid address", got)
	}
}
