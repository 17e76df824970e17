package account

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tributary-hq/tributary/affiliate"
)

func TestKey_RoundTripAndHiddenText(t *testing.T) {
	seen := map[string]bool{}
	for _, kind := range []KeyKind{SecretKey, PublicKey, ServiceKey} {
		for _, mode := range []affiliate.Mode{affiliate.ModeTest, affiliate.ModeLive} {
			key := NewKey(kind, mode)
			text := key.Reveal()
			if seen[text] || len(text) != 46 {
				t.Errorf("a key has %d characters, and was generated before: %v; want 46 and false", len(text), seen[text])
			}
			seen[text] = true
			parsed, ok := ParseKey(text)
			if !ok || parsed != key || parsed.Digest() != key.Digest() {
				t.Errorf("ParseKey of a %s %s key returns another key, %v", kind, mode, ok)
			}
			if want := map[KeyKind]string{SecretKey: "sk_", PublicKey: "pk_", ServiceKey: "st_"}[kind] + string(mode) + "_"; key.Prefix() != want {
				t.Errorf("prefix %q, want %q", key.Prefix(), want)
			}
			for _, printed := range []string{fmt.Sprint(key), fmt.Sprintf("%v", key), fmt.Sprintf("%#v", key), fmt.Sprintf("%+v", struct{ K Key }{key})} {
				if strings.Contains(printed, text[8:40]) {
					t.Errorf("the key was printed in clear text as %q", printed)
				}
			}
		}
	}
}

// A key with one changed, missing or additional character must be rejected without a
// lookup.
func TestParseKey_RejectsDamagedKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := NewKey(SecretKey, affiliate.ModeLive).Reveal()
		at := rapid.IntRange(0, len(text)-1).Draw(t, "at")
		c := rapid.Byte().Draw(t, "byte")
		if c != text[at] {
			if _, ok := ParseKey(text[:at] + string([]byte{c}) + text[at+1:]); ok {
				t.Fatalf("a key with byte %d changed to %q was accepted", at, c)
			}
		}
		if _, ok := ParseKey(text[:at] + text[at+1:]); ok {
			t.Fatal("a shorter key was accepted")
		}
		if _, ok := ParseKey(text[:at] + "x" + text[at:]); ok {
			t.Fatal("a longer key was accepted")
		}
	})
}
