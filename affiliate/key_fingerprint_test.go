package affiliate_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate"
)

// start checks keys as a core does at its start, and returns the fingerprints that are
// stored afterwards.
func start(stored []affiliate.KeyFingerprint, keys affiliate.SettingKeys) ([]affiliate.KeyFingerprint, error) {
	if err := keys.Check(stored); err != nil {
		return stored, err
	}
	next := keys.Fingerprints()
	for _, old := range stored {
		if !slices.ContainsFunc(next, func(key affiliate.KeyFingerprint) bool { return key.KeyID == old.KeyID }) {
			old.IsFirst = false
			next = append(next, old)
		}
	}
	return next, nil
}

func TestSettingKeys_Check(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name        string
		starts      string // the keys of each start, as id:content; none has ids if the id is empty
		replaceable bool
		want        string // part of the error of the last start; empty: no error
	}{
		{name: "the same keys", starts: "a:1,b:2 a:1,b:2"},
		{name: "another content", starts: "a:1 a:2", want: "SETTING: the key a is not the key with which this database was used"},
		{name: "another content of a second key", starts: "a:1,b:2 a:1,b:3", want: "the key b is not"},
		{name: "rotation", starts: "a:1 a:1,b:2 b:2,a:1 b:2"},
		{name: "a new key first", starts: "a:1 b:2,a:1 b:2"},
		{name: "a new key without the old one", starts: "a:1 b:2", want: "SETTING: the key is missing that was the first one at the latest start"},
		{name: "the list before a rotation", starts: "a:1 b:2,a:1 a:1", want: "the key is missing"},
		{name: "an id is used again", starts: "a:1 b:2,a:1 b:2 b:2,a:3", want: "the key a is not"},
		{name: "replaceable", starts: "a:1 b:2", replaceable: true},
		{name: "replaceable, another content", starts: "a:1 a:2", replaceable: true, want: "run `core keys reset SETTING`"},
		{name: "rotation without ids", starts: ":1 :1,:2 :2,:1 :2"},
		{name: "another key without ids", starts: ":1 :2", want: "run `core keys reset SETTING`"},
	} {
		var stored []affiliate.KeyFingerprint
		var err error
		for list := range strings.FieldsSeq(tc.starts) {
			if err != nil {
				t.Errorf("%s: a start before the last one returned %v", tc.name, err)
			}
			keys := affiliate.SettingKeys{Setting: "SETTING", Replaceable: tc.replaceable}
			for entry := range strings.SplitSeq(list, ",") {
				id, content, _ := strings.Cut(entry, ":")
				keys.Keys = append(keys.Keys, affiliate.SettingKey{ID: id, Secret: bytes.Repeat([]byte(content), 32)})
			}
			stored, err = start(stored, keys)
		}
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: the last start returned %v, want %q", tc.name, err, tc.want)
		}
	}
}

// The same key in two settings has two fingerprints, and none contains a part of the key.
func TestSettingKeys_FingerprintsAreNotKeys(t *testing.T) {
	t.Parallel()
	secret := []byte("0123456789abcdef0123456789abcdef")
	fingerprint := func(setting string) affiliate.KeyFingerprint {
		return affiliate.SettingKeys{Setting: setting, Keys: []affiliate.SettingKey{{Secret: secret}}}.Fingerprints()[0]
	}
	a, b := fingerprint("A"), fingerprint("B")
	if bytes.Equal(a.Fingerprint, b.Fingerprint) || len(a.Fingerprint) != 8 || bytes.Contains(secret, a.Fingerprint) || a.KeyID == "" {
		t.Errorf("the fingerprints are %x with the id %s, and %x", a.Fingerprint, a.KeyID, b.Fingerprint)
	}
}
