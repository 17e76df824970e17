package collector

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/httpedge/jsonscan"
)

func TestDecode_ReportsAllFaults(t *testing.T) {
	long := strings.Repeat("x", 256)
	for _, c := range []struct {
		name, body string
		violations []string // each is a field name, a space and the message
	}{
		{"only the required field", `{"referral_code":"a"}`, nil},
		{"all fields", `{"referral_code":"a","url":"https://x.y/z?q#f","referrer":"android-app://com.example","click_id":"0192f7b0-0000-7000-8000-000000000000","sub_id":"s","utm":{"source":"a","medium":"b","campaign":"c","term":"d","content":"e"},"consent":"unknown","screen":"1x1","language":"de","occurred_at":"2026-01-02T03:04:05.678+02:00","public_key":"pk"}`, nil},
		{"null counts as absent", `{"referral_code":"a","url":null,"utm":null,"consent":null,"click_id":null}`, nil},
		{"empty text counts as absent", `{"referral_code":"a","url":"","referrer":"","click_id":"","consent":"","occurred_at":""}`, nil},
		{"escapes", `{"referral_code":"\u0061","sub_id":"\ud83d\ude00\n\"\\\/"}`, nil},
		{"hundred code points", `{"referral_code":"` + strings.Repeat("ü", 100) + `"}`, nil},
		{"no code", `{}`, []string{"referral_code is required"}},
		{"blank code", `{"referral_code":"  "}`, []string{"referral_code is required"}},
		{"long code", `{"referral_code":"` + strings.Repeat("ü", 101) + `"}`, []string{"referral_code must have 1 to 100 characters"}},
		{"several faults", `{"referral_code":1,"sub_id":"` + long + `","x":1,"consent":"maybe","click_id":"7","occurred_at":"yesterday","url":"/p","utm":{"sauce":"a","source":[]}}`, []string{
			"referral_code must be a string", "utm.source must be a string",
			"click_id must be a UUID", "consent must be one of granted, denied, unknown", "occurred_at must be an RFC 3339 timestamp", "url must be an absolute http or https URL", "sub_id must have at most 255 characters",
		}},
		{"repeated unknown field", `{"referral_code":"a","x":1,"x":2}`, []string{"x must be given only once"}},
		{"repeated field", `{"referral_code":"a","referral_code":"a"}`, []string{"referral_code must be given only once"}},
		{"repeated field, once with an escaped name", `{"referral_code":"a","referral\u005fcode":"b"}`, []string{"referral_code must be given only once"}},
		{"repeated utm object", `{"referral_code":"a","utm":{},"utm":{}}`, []string{"utm must be given only once"}},
		{"utm is not an object", `{"referral_code":"a","utm":"x"}`, []string{"utm must be an object"}},
		{"field name with capital letters", `{"Referral_Code":"a"}`, []string{"referral_code is required"}},
		{"empty", ``, []string{"body is not valid JSON at byte 0"}},
		{"an array instead of an object", `[]`, []string{"body must be a JSON object"}},
		{"a string instead of an object", `"a"`, []string{"body must be a JSON object"}},
		{"truncated object", `{"referral_code":"a"`, []string{"body is not valid JSON at byte 20"}},
		{"trailing data", `{"referral_code":"a"} x`, []string{"body must not continue after the JSON object"}},
		{"two objects", `{"referral_code":"a"}{}`, []string{"body must not continue after the JSON object"}},
		{"trailing comma", `{"referral_code":"a",}`, []string{"body is not valid JSON at byte 21"}},
		{"single quotes", `{'referral_code':'a'}`, []string{"body is not valid JSON at byte 1"}},
		{"NaN", `{"referral_code":NaN}`, []string{"body is not valid JSON at byte 17"}},
		{"leading zero", `{"referral_code":01}`, []string{"body is not valid JSON at byte 18"}},
		{"raw line feed", "{\"referral_code\":\"a\nb\"}", []string{"body is not valid JSON at byte 19"}},
		{"bad UTF-8", "{\"referral_code\":\"a\xff\"}", []string{"body must be valid UTF-8"}},
		{"NUL", `{"referral_code":"a","sub_id":"x\u0000"}`, []string{"sub_id " + jsonscan.ContainsNUL}},
		{"lone surrogate", `{"referral_code":"a","sub_id":"\ud800"}`, []string{"sub_id " + jsonscan.LoneSurrogate}},
		{"surrogate pair in reverse order", `{"referral_code":"a","sub_id":"\ude00\ud83d"}`, []string{"sub_id " + jsonscan.LoneSurrogate}},
		{"unknown escape", `{"referral_code":"\x"}`, []string{"body is not valid JSON at byte 18"}},
		{"bad hex digit in an escape", `{"referral_code":"\u+123"}`, []string{"body is not valid JSON at byte 18"}},
		{"32 levels of nesting", `{"referral_code":"a","x":` + strings.Repeat("[", 31) + strings.Repeat("]", 31) + `}`, nil},
		{"33 levels of nesting", `{"referral_code":"a","x":` + strings.Repeat("[", 32) + strings.Repeat("]", 32) + `}`, []string{"body must not be nested deeper than 32 levels"}},
		{"8000 levels of nesting", strings.Repeat("[", 8000), []string{"body must not be nested deeper than 32 levels"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, violations := decode([]byte(c.body))
			var got []string
			for _, v := range violations {
				got = append(got, v.Field+" "+v.Message)
			}
			if !reflect.DeepEqual(got, c.violations) {
				t.Errorf("violations:\ngot  %q\nwant %q", got, c.violations)
			}
		})
	}
}

func TestDecode_ReturnsKeyOfInvalidBody(t *testing.T) {
	for _, body := range []string{
		`{"public_key":"pk"}`, `{"public_key":"pk","referral_code":"a"`, `{"public_key":"pk"} x`, "{\"public_key\":\"pk\",\"sub_id\":\"\xff\"}",
	} {
		if b, violations := decode([]byte(body)); b.text[fieldPublicKey] != "pk" || len(violations) == 0 {
			t.Errorf("decode(%q): key %q and violations %v, want the key pk and at least one violation", body, b.text[fieldPublicKey], violations)
		}
	}
}

func TestDecode_WhiteSpaceCountsAsAbsent(t *testing.T) {
	for _, space := range []string{" ", `\t\r\n`, "\u00a0", "\u0085", `\u1680\u2003\u2028`, "\u3000", strings.Repeat(" ", 300)} {
		for field, name := range fieldNames {
			value := `"` + name + `":"` + space + `"`
			if inUTM, ok := strings.CutPrefix(name, utmPrefix); ok {
				value = `"utm":{"` + inUTM + `":"` + space + `"}`
			}
			body, want := `{"referral_code":"a",`+value+`}`, affiliate.Violations(nil)
			if field == fieldReferralCode {
				body, want = `{`+value+`}`, affiliate.Violations{{Field: name, Message: affiliate.IsRequired}}
			}
			b, violations := decode([]byte(body))
			if b.text[field] != "" || !slices.Equal(violations, want) {
				t.Errorf("decode(%s): %s is %q with the violations %v, want an empty text and %v", body, name, b.text[field], violations, want)
			}
		}
	}
	// Other text is not changed.
	for _, text := range []string{" a ", "\u3000a", "\u200b", "ü"} {
		b, violations := decode([]byte(`{"referral_code":"a","sub_id":"` + text + `"}`))
		if b.text[fieldSubID] != text || len(violations) > 0 {
			t.Errorf("sub_id %q is decoded as %q with the violations %v, want no change and no violations", text, b.text[fieldSubID], violations)
		}
	}
	for _, name := range []string{"click_id", "consent", "occurred_at", "url", "referrer"} {
		if _, violations := decode([]byte(`{"referral_code":"a","` + name + `":" x "}`)); len(violations) != 1 || violations[0].Field != name {
			t.Errorf("%s with white space around its value: violations %v, want one for this field", name, violations)
		}
	}
}

func TestLandingAndHost_RemovePersonalData(t *testing.T) {
	for text, want := range map[string]string{
		"https://shop.example/p?email=a@b#t": "https://shop.example/p",
		"http://shop.example":                "http://shop.example",
		"https://u:p@shop.example/p":         "https://shop.example/p",
		"https://shop.example:8443/a%20b":    "https://shop.example:8443/a%20b",
		"https://shop.example/sale-50%-off":  "https://shop.example/sale-50%-off",
		"https://[2001:db8::1]/":             "https://[2001:db8::1]/",
		"HTTPS://Shop.example/":              "https://Shop.example/",
		"https://":                           "",
		"https:///p":                         "",
		"https://shop.example:/":             "https://shop.example:/",
		"https://shop.example:99999999/":     "https://shop.example:99999999/",
		"javascript:alert(1)":                "",
		"//shop.example/":                    "",
		"https://shop\x7f/":                  "",
	} {
		if got, ok := landingOf(text); got != want || ok != (want != "") {
			t.Errorf("landingOf(%q) = %q, %t; want %q, %t", text, got, ok, want, want != "")
		}
	}
	for text, want := range map[string]string{
		"https://News.Example:8443/a?b":    "news.example",
		"android-app://com.example.app/x":  "com.example.app",
		"https://u:p@news.example/":        "news.example",
		"https://[2001:db8::1]:80/":        "2001:db8::1",
		"about:blank":                      "",
		"news.example":                     "",
		"https://bücher.example/übersicht": "bücher.example",
	} {
		if got, ok := hostOf(text); got != want || ok != (want != "") {
			t.Errorf("hostOf(%q) = %q, %t; want %q, %t", text, got, ok, want, want != "")
		}
	}
}

// FuzzDecode compares the decoder with encoding/json for all bodies without a syntax
// error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"referral_code":"a","utm":{"source":"b"}}`))
	f.Add([]byte(`{"referral_code":"\ud83d\ude00","x":[1,-2.5e+3,true,null,{}]} `))
	f.Add([]byte(`{"public_key":"pk","url":"https://x/?q"`))
	f.Add([]byte("{\"sub_id\":\"\xff\\u0000\"}"))
	f.Add([]byte("{\"referral_code\":\"a\",\"sub_id\":\" \\t\\u3000\",\"utm\":{\"term\":\"\u00a0\"},\"screen\":\" x \"}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		b, violations := decode(raw)
		isInvalid := func(field string) bool {
			return slices.ContainsFunc(violations, func(v affiliate.Violation) bool { return v.Field == field })
		}
		if isInvalid(affiliate.WholeBody) {
			return
		}
		var want map[string]any
		standard := json.NewDecoder(bytes.NewReader(raw))
		standard.UseNumber() // Numbers may be too large for a float64.
		if err := standard.Decode(&want); err != nil {
			t.Fatalf("decode accepts %q, but encoding/json reports %v", raw, err)
		}
		utm, _ := want["utm"].(map[string]any)
		for field, name := range fieldNames {
			value := want[name]
			if inUTM, ok := strings.CutPrefix(name, utmPrefix); ok {
				value = utm[inUTM]
			}
			text, _ := value.(string)
			if strings.TrimSpace(text) == "" {
				text = "" // A text of only white space counts as absent.
			}
			if !isInvalid(name) && !isInvalid("utm") && b.text[field] != text {
				t.Fatalf("decode(%q): %s is %q, want %q", raw, name, b.text[field], text)
			}
			if strings.ContainsRune(b.text[field], 0) {
				t.Fatalf("decode(%q): %s contains NUL", raw, name)
			}
		}
	})
}
