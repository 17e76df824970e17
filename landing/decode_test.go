package landing

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
)

// FuzzDecode compares the decoder with encoding/json. encoding/json accepts more: repeated
// keys, deeper nesting, and strings that cannot be stored.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"email":"ada@example.com","website":"","elapsedMs":1500.5,"name":"Ada","message":"0123456789"}`,
		`{"email":5,"website":[1,{"a":null}],"elapsedMs":"1500","x":{"y":[]}}`,
		`{"a":"\ud83d\ude00 \u0000 \ud800 \"\\\/\b\f\n\r\t"}`, `{"elapsedMs":1e999,"elapsedMs":-0.0E+1}`, `[]`, `{} x`, "{\"a\":\"\xff\"}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var message landingv1.SendContactMessageRequest
		err := decode(body, message.ProtoReflect())
		var fields map[string]any
		if err != nil {
			return
		}
		reference := json.NewDecoder(bytes.NewReader(body))
		reference.UseNumber() // otherwise it refuses numbers that are too large for a float
		if err := reference.Decode(&fields); err != nil || fields == nil || !utf8.Valid(body) || !json.Valid(body) {
			t.Fatalf("decode accepts %q, encoding/json returns %v, %v", body, fields, err)
		}
		for name, got := range map[string]string{"email": message.Email, "name": message.Name, "message": message.Message} {
			want, _ := fields[name].(string)
			// encoding/json replaces half of a surrogate pair.
			if got != want && (got != "" || !strings.ContainsAny(want, "\x00\ufffd")) {
				t.Fatalf("decode(%q) sets %s to %q, want %q", body, name, got, want)
			}
		}
		literal, _ := fields["elapsedMs"].(json.Number)
		number, err := literal.Float64()
		if err != nil {
			number = 0 // there is no number, or it is too large
		}
		if message.ElapsedMs != number {
			t.Fatalf("decode(%q) sets elapsedMs to %v, want %v", body, message.ElapsedMs, number)
		}
		text, isText := fields["website"].(string)
		empty := fields["website"] == nil || isText && text == ""
		if empty != (message.Website == "") {
			t.Fatalf("decode(%q) sets website to %q, want empty = %v", body, message.Website, empty)
		}
	})
}
