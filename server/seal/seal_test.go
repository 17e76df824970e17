package seal_test

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server/seal"
)

// entry returns an entry of the setting that New parses: the id and the 32 bytes of a
// key. All bytes have the value fill.
func entry(kid string, fill byte) string {
	return kid + ":" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, 32))
}

func newKeys(t testing.TB, setting string) *seal.Keys {
	t.Helper()
	keys, err := seal.New(setting)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func TestOpen_NeedsTheKeyAndTheAdditionalData(t *testing.T) {
	keys := newKeys(t, entry("a", 1))
	for _, plain := range []string{"", "x", strings.Repeat("long ", 1000)} {
		sealed := keys.Seal([]byte(plain), []byte("owner"))
		if opened, err := keys.Open(sealed, []byte("owner")); err != nil || string(opened) != plain {
			t.Errorf("Open returned %q, error %v, want %q", opened, err, plain)
		}
		if len(plain) > 1 && bytes.Contains(sealed, []byte(plain)) {
			t.Errorf("the sealed value %q contains the plain text", sealed)
		}
		if again := keys.Seal([]byte(plain), []byte("owner")); bytes.Equal(sealed, again) {
			t.Error("two sealed values of the same text are equal, so the nonce is not random")
		}
		for _, other := range []string{"", "Owner", "owner "} {
			if _, err := keys.Open(sealed, []byte(other)); err == nil {
				t.Errorf("Open with the additional data %q succeeded, want an error", other)
			}
		}
	}
}

func TestKeys_Rotation(t *testing.T) {
	old := newKeys(t, entry("old", 1))
	both := newKeys(t, entry("new", 2)+", "+entry("old", 1))
	onlyNew := newKeys(t, entry("new", 2))
	sealedByOld := old.Seal([]byte("text"), nil)
	sealedByNew := both.Seal([]byte("text"), nil)

	for _, tc := range []struct {
		name        string
		keys        *seal.Keys
		sealed      []byte
		wantSuccess bool
	}{
		{"value of the old key, opened with both keys", both, sealedByOld, true},
		{"value of the new key, opened with both keys", both, sealedByNew, true},
		{"value of the new key, opened with the new key", onlyNew, sealedByNew, true},
		{"value of the old key, opened with the new key", onlyNew, sealedByOld, false},
		{"value of the new key, opened with the old key", old, sealedByNew, false},
		{"value of the old key with the kid of the new key", both, append([]byte("new:"), sealedByOld[len("old:"):]...), false},
	} {
		opened, err := tc.keys.Open(tc.sealed, nil)
		if (err == nil) != tc.wantSuccess || tc.wantSuccess && string(opened) != "text" {
			t.Errorf("%s: Open returned %q, error %v, want success: %t", tc.name, opened, err, tc.wantSuccess)
		}
	}
	if !bytes.HasPrefix(sealedByNew, []byte("new:")) {
		t.Errorf("the value is sealed with the key %q, want the first key, new", sealedByNew[:4])
	}
}

func TestOpen_RejectsChangedValues(t *testing.T) {
	keys := newKeys(t, entry("a", 1))
	sealed := keys.Seal([]byte("DE89370400440532013000"), []byte("owner"))
	for i := range sealed {
		for bit := range 8 {
			changed := bytes.Clone(sealed)
			changed[i] ^= 1 << bit
			if _, err := keys.Open(changed, []byte("owner")); err == nil {
				t.Fatalf("Open of a value with bit %d of byte %d changed succeeded, want an error", bit, i)
			}
		}
		if _, err := keys.Open(sealed[:i], []byte("owner")); err == nil {
			t.Fatalf("Open of a value with only %d bytes succeeded, want an error", i)
		}
	}
	if _, err := keys.Open(append(sealed, 0), []byte("owner")); err == nil {
		t.Fatal("Open of a value with an additional byte succeeded, want an error")
	}
}

func TestNew_ErrorsDoNotContainTheKeys(t *testing.T) {
	secret := base64.StdEncoding.EncodeToString([]byte("0123456789abcdefghijklmnopqrstuv"))
	for _, tc := range []struct{ setting, want string }{
		{"", "entry 1: must be kid:base64"},
		{secret, "entry 1: must be kid:base64"},
		{":" + secret, "entry 1: the kid must be"},
		{secret + ":k", "entry 1: the kid must be"},
		{"a b:" + secret, "entry 1: the kid must be"},
		{"a:" + secret + ",", "entry 2: must be kid:base64"},
		{"a:" + secret + ",b:" + secret + "!", "entry 2: the key is not base64"},
		{"a:" + base64.StdEncoding.EncodeToString([]byte(secret)[:31]), "entry 1: the key has 31 bytes, must have 32"},
		{"a:" + secret + ",b:" + secret + ",a:" + secret, "entry 3: has the kid of entry 1"},
	} {
		_, err := seal.New(tc.setting)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New with %q returned the error %v, want %q", tc.setting, err, tc.want)
			continue
		}
		for i := 0; i+6 <= len(secret); i++ {
			if strings.Contains(err.Error(), secret[i:i+6]) {
				t.Errorf("New with %q returned an error that shows the key: %v", tc.setting, err)
				break
			}
		}
	}
	_, err := seal.New("x," + "b:short," + entry("c", 1) + ",c:" + secret)
	if err == nil || strings.Count(err.Error(), "entry ") != 4 {
		t.Errorf("New returned the error %v, want one that lists all 4 faults", err)
	}
}

func TestMailToken_OpensOnlyForItsMail(t *testing.T) {
	keys := newKeys(t, entry("a", 1))
	mail, other := affiliate.NewID[notification.MailID](time.Now()), affiliate.NewID[notification.MailID](time.Now())
	sealed := keys.SealMailToken(mail, "ver_token")
	if token, err := keys.OpenMailToken(mail, sealed); err != nil || token != "ver_token" {
		t.Errorf("OpenMailToken returned %q, %v, want ver_token", token, err)
	}
	if token, err := keys.OpenMailToken(other, sealed); err == nil || token != "" {
		t.Errorf("OpenMailToken for another mail returned %q, %v, want an error", token, err)
	}
}

func FuzzOpen(f *testing.F) {
	keys := newKeys(f, entry("a", 1)+","+entry("b", 2))
	aad := []byte("owner")
	valid := keys.Seal([]byte("text"), aad)
	for _, seed := range [][]byte{nil, []byte("a"), []byte("a:"), []byte(":"), []byte("b:short"), valid, valid[1:], bytes.Repeat([]byte("a:"), 40)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, sealed []byte) {
		// Open must not panic. If it decrypts a value, the result must be "text". The
		// sealed value need not be equal to the variable valid, because each process of
		// the fuzzer seals the text with its own nonce.
		if opened, err := keys.Open(sealed, aad); err == nil && string(opened) != "text" {
			t.Fatalf("%q opened as %q", sealed, opened)
		}
	})
}
