package privacy_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/event"
	"github.com/tributary-hq/tributary/affiliate/eventtest"
	"github.com/tributary-hq/tributary/affiliate/link"
	"github.com/tributary-hq/tributary/affiliate/privacy"
)

const pseudonym = "erased-0a1b2c3d"

func mustRedact(t testing.TB, body []byte) []byte {
	t.Helper()
	out, err := privacy.RedactBody(body, pseudonym)
	if err != nil {
		t.Fatalf("RedactBody of %s: %v", body, err)
	}
	return out
}

// personalTexts lists all personal texts in the examples.
var personalTexts = []string{
	"Anna Jansen", "anna-jansen", "anna-jansen-k7f", "anna10", "The site is not about gardening.", "Bids on the name of the brand.",
	"https://shop.example/spades", "https://shop.example/rakes", "newsletter", "anna", "spring", "summer", "customer-17",
}

func TestRedactBody_ReplacesOnlyPersonalTexts(t *testing.T) {
	var pairs []string
	for _, text := range personalTexts {
		pairs = append(pairs, `"`+text+`"`, `"`+pseudonym+`"`)
	}
	personal := strings.NewReplacer(pairs...)
	for name, event := range eventtest.Examples(t) {
		body := eventtest.EncodedBody(t, event)
		original := bytes.Clone(body)
		got := mustRedact(t, body)
		if want := personal.Replace(string(body)); string(got) != want {
			t.Errorf("redacted body of %s:\n%s\nwant\n%s", name, got, want)
		}
		if hasSubject := event.Subject() != nil; hasSubject == bytes.Equal(got, body) {
			t.Errorf("%s has a subject: %t, but the redacted body is\n%s", name, hasSubject, got)
		}
		if !bytes.Equal(body, original) {
			t.Errorf("%s: RedactBody changed its argument", name)
		}
		if err := eventtest.ValidationError(t, name, got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if again := mustRedact(t, got); !bytes.Equal(again, got) {
			t.Errorf("body of %s, redacted twice:\n%s\nwant it to be the same as redacted once:\n%s", name, again, got)
		}
	}
}

func TestRedactBody_FindsTextsAtAnyPosition(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"white space and order are unchanged": {
			" {\"data\" : {\n\"previous_attributes\":{\"code\" :\t\"a\"}, \"object\":{\"version\":1e3,\"code\": \"b\"} },\"type\":\"link.updated\"}\n",
			" {\"data\" : {\n\"previous_attributes\":{\"code\" :\t\"P\"}, \"object\":{\"version\":1e3,\"code\": \"P\"} },\"type\":\"link.updated\"}\n",
		},
		"inside an object": {
			`{"type":"link.created","data":{"object":{"utm":{"source":"a","term":null,"content":"b"},"id":"c"}}}`,
			`{"type":"link.created","data":{"object":{"utm":{"source":"P","term":null,"content":"P"},"id":"c"}}}`,
		},
		"inside a list": {
			`{"type":"promo_code.created","data":{"object":{"code":["a",[{"b":"c"}],1,true]}}}`,
			`{"type":"promo_code.created","data":{"object":{"code":["P",[{"b":"P"}],1,true]}}}`,
		},
		"null and an empty string": {
			`{"type":"participant.rejected","data":{"object":{"partner_name":"","reason":null}}}`,
			`{"type":"participant.rejected","data":{"object":{"partner_name":"P","reason":null}}}`,
		},
		"escapes": {
			`{"type":"participant.applied","data":{"object":{"partner_name":"\"},\\","status":"\u003c"}}}`,
			`{"type":"participant.applied","data":{"object":{"partner_name":"P","status":"\u003c"}}}`,
		},
		"the same key elsewhere": {
			`{"type":"link.created","code":"a","data":{"code":"b","more":{"code":"c"},"object":{"id":{"code":"d"}}}}`,
			`{"type":"link.created","code":"a","data":{"code":"b","more":{"code":"c"},"object":{"id":{"code":"d"}}}}`,
		},
		"another event": {
			`{"type":"program.updated","data":{"object":{"code":"a","reason":"b","partner_name":"c"}}}`,
			`{"type":"program.updated","data":{"object":{"code":"a","reason":"b","partner_name":"c"}}}`,
		},
	} {
		want := strings.ReplaceAll(tc.want, `"P"`, `"`+pseudonym+`"`)
		if got := mustRedact(t, []byte(tc.body)); string(got) != want {
			t.Errorf("redacted body, %s:\n%s\nwant\n%s", name, got, want)
		}
	}
}

func TestRedactBody_RejectsInvalidJSON(t *testing.T) {
	for _, body := range []string{"", "{", `{"type":"link.created"}}`, `{"type":7}`, "null null"} {
		if out, err := privacy.RedactBody([]byte(body), pseudonym); err == nil {
			t.Errorf("RedactBody(%q) = %q, want an error", body, out)
		}
	}
}

// If a new text field is added to the object of a participant's event, this test fails
// until the field is redacted or listed as harmless.
func TestRedactBody_CoversAllTextFields(t *testing.T) {
	harmless := []string{"currency", "expires_at"}
	text := reflect.TypeFor[string]()
	seen := map[string]bool{}
	var visit func(t reflect.Type, object map[string]any)
	visit = func(objectType reflect.Type, object map[string]any) {
		for i := range objectType.NumField() {
			key, kind := objectType.Field(i).Tag.Get("json"), objectType.Field(i).Type
			if kind.Kind() == reflect.Pointer {
				kind = kind.Elem()
			}
			if kind == reflect.TypeFor[link.UTMObject]() {
				utm, _ := object[key].(map[string]any)
				visit(kind, utm)
			}
			if kind != text {
				continue
			}
			seen[key] = true
			if value := object[key]; value != nil && (value == pseudonym) == slices.Contains(harmless, key) {
				t.Errorf("after the redaction, %s.%s is %v; listed as harmless: %v", objectType, key, value, slices.Contains(harmless, key))
			}
		}
	}
	for name, sent := range eventtest.Examples(t) {
		if sent.Subject() == nil {
			continue
		}
		data, _ := eventtest.DecodeBody(t, mustRedact(t, eventtest.EncodedBody(t, sent)))["data"].(map[string]any)
		object, _ := data["object"].(map[string]any)
		visit(reflect.TypeOf(event.EventObjects()[name]), object)
	}
	want := []string{
		"campaign", "code", "content", "currency", "destination_url", "expires_at", "external_id", "medium", "partner_name", "reason", "referral_code",
		"source", "sub_id", "term",
	}
	if got := slices.Sorted(maps.Keys(seen)); !slices.Equal(got, want) {
		t.Errorf("text fields %q, want %q", got, want)
	}
}

// redactedTree is an independent implementation of the redaction that works on a tree.
func redactedTree(value any, path []string, personal bool, fields []string) any {
	switch value := value.(type) {
	case map[string]any:
		for key, member := range value {
			memberPath := appendKey(path, key)
			isPersonal := len(path) == 2 && memberPath[0] == "data" && (memberPath[1] == "object" || memberPath[1] == "previous_attributes") && slices.Contains(fields, key)
			value[key] = redactedTree(member, memberPath, personal || isPersonal, fields)
		}
	case []any:
		for i := range value {
			value[i] = redactedTree(value[i], appendKey(path, ""), personal, fields)
		}
	case string:
		if personal {
			return pseudonym
		}
	}
	return value
}

func appendKey(path []string, key string) []string {
	return append(slices.Clip(path[:min(len(path), 3)]), key)
}

func FuzzRedactBody(f *testing.F) {
	for _, event := range eventtest.Examples(f) {
		f.Add(eventtest.EncodedBody(f, event))
	}
	f.Add([]byte(`{"type":"link.created","data":{"object":{"code":["a",{"b":"c"}],"code":"d","utm":{"x":"\ud800"}}}}`))
	f.Add([]byte("\t{\"type\" : \"participant.applied\",\"data\":{ \"object\":{\"reason\"\n: \"\\\"\" , \"partner_name\":[ ] }}} "))
	f.Fuzz(func(t *testing.T, body []byte) {
		out, err := privacy.RedactBody(body, pseudonym)
		if err != nil {
			return
		}
		if again := mustRedact(t, out); !bytes.Equal(again, out) {
			t.Fatalf("%s\nredacted twice\n%s", out, again)
		}
		read := func(text []byte) (tree any) {
			decoder := json.NewDecoder(bytes.NewReader(text))
			decoder.UseNumber()
			if err := decoder.Decode(&tree); err != nil {
				t.Fatal(err)
			}
			return tree
		}
		var head struct{ Type string }
		if err := json.Unmarshal(body, &head); err != nil {
			t.Fatal(err)
		}
		var fields []string
		switch noun, _, _ := strings.Cut(head.Type, "."); noun {
		case "participant":
			fields = []string{"external_id", "external_id", "partner_name", "referral_code", "reason"}
		case "link":
			fields = []string{"code", "destination_url", "sub_id", "utm"}
		case "promo_code":
			fields = []string{"code"}
		}
		if got, want := read(out), redactedTree(read(body), nil, false, fields); !reflect.DeepEqual(got, want) {
			t.Fatalf("RedactBody(%q) = %q, which decodes to %v, want %v", body, out, got, want)
		}
	})
}
