package webhook_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate/webhook"
)

func TestVerify_AcceptsSignaturesOfItsSecretsWithinTheTolerance(t *testing.T) {
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	current, former, other := webhook.NewSecret(), webhook.NewSecret(), webhook.NewSecret()
	secrets := []webhook.Secret{current, former}
	body := []byte(`{"type":"email.bounced"}`)
	signed := func(at time.Time, by ...webhook.Secret) webhook.Signature {
		return webhook.Signature{ID: "msg_1", Timestamp: strconv.FormatInt(at.Unix(), 10), Signatures: webhook.Sign(by, "msg_1", at, body)}
	}
	changed := func(change func(*webhook.Signature)) webhook.Signature {
		s := signed(now, current)
		change(&s)
		return s
	}
	for name, tc := range map[string]struct {
		signature webhook.Signature
		body      string
		valid     bool
	}{
		"current secret":             {signed(now, current), string(body), true},
		"former secret":              {signed(now, former), string(body), true},
		"one of several signatures":  {signed(now, other, current), string(body), true},
		"another secret":             {signed(now, other), string(body), false},
		"another body":               {signed(now, current), string(body) + " ", false},
		"five minutes old":           {signed(now.Add(-5*time.Minute), current), string(body), true},
		"more than five minutes old": {signed(now.Add(-5*time.Minute-time.Second), current), string(body), false},
		"five minutes ahead":         {signed(now.Add(5*time.Minute), current), string(body), true},
		"more than five ahead":       {signed(now.Add(5*time.Minute+time.Second), current), string(body), false},
		"another id":                 {changed(func(s *webhook.Signature) { s.ID = "msg_2" }), string(body), false},
		"another time":               {changed(func(s *webhook.Signature) { s.Timestamp = strconv.FormatInt(now.Unix()+1, 10) }), string(body), false},
		"no id":                      {changed(func(s *webhook.Signature) { s.ID = "" }), string(body), false},
		"long id":                    {changed(func(s *webhook.Signature) { s.ID = strings.Repeat("m", 257) }), string(body), false},
		"no timestamp":               {changed(func(s *webhook.Signature) { s.Timestamp = "" }), string(body), false},
		"timestamp with spaces":      {changed(func(s *webhook.Signature) { s.Timestamp = " " + s.Timestamp }), string(body), false},
		"no signature":               {changed(func(s *webhook.Signature) { s.Signatures = "" }), string(body), false},
		"another version":            {changed(func(s *webhook.Signature) { s.Signatures = strings.Replace(s.Signatures, "v1,", "v2,", 1) }), string(body), false},
	} {
		if err := webhook.Verify(secrets, tc.signature, []byte(tc.body), now); (err == nil) != tc.valid {
			t.Errorf("%s: Verify = %v, want valid %t", name, err, tc.valid)
		}
	}
}

func TestParseSecrets_AcceptsSeveralSecrets(t *testing.T) {
	first, second := webhook.NewSecret().Text(), webhook.NewSecret().Text()
	for text, want := range map[string]int{first: 1, first + "," + second: 2, first + ", " + second: 2, "": 0, first + ",": 0, "whsec_%": 0, "c2VjcmV0": 0} {
		secrets, err := webhook.ParseSecrets(text)
		if len(secrets) != want || (err == nil) != (want > 0) {
			t.Errorf("ParseSecrets returns %d secrets and the error %v, want %d secrets", len(secrets), err, want)
		}
	}
}
