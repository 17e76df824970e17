package webhook

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"pgregory.net/rapid"
)

// The test vector comes from the reference libraries of Standard Webhooks.
func TestSign_MatchesReferenceVector(t *testing.T) {
	secret, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := Sign([]Secret{secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 999_999_999), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("Sign returns %s, want %s", got, want)
	}
}

func TestSign_VerifiesWithEachSecret(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		secrets := []Secret{NewSecret(), NewSecret()}[:rapid.IntRange(1, 2).Draw(t, "secrets")]
		id := "evt_" + hex.EncodeToString(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id"))
		at := time.Unix(rapid.Int64Range(0, 1<<33).Draw(t, "at"), 0)
		body := rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "body")
		header := Sign(secrets, id, at, body)
		if n := len(strings.Fields(header)); n != len(secrets) {
			t.Fatalf("%d signatures for %d secrets: %s", n, len(secrets), header)
		}
		for i, secret := range secrets {
			if err := verify(secret, id, at, body, header); err != nil {
				t.Fatalf("verification with secret %d: %v", i, err)
			}
			// Some receivers only check the first signature. The first signature must
			// therefore be made with the newest secret, which has index 0.
			if first, _, _ := strings.Cut(header, " "); (verify(secret, id, at, body, first) == nil) != (i == 0) {
				t.Fatalf("the first signature verifies with secret %d: %v, want only secret 0", i, i != 0)
			}
		}
		if verify(NewSecret(), id, at, body, header) == nil {
			t.Fatal("the signature verifies with another secret")
		}
		if verify(secrets[0], id+"0", at, body, header) == nil || verify(secrets[0], id, at.Add(time.Second), body, header) == nil {
			t.Fatal("the signature verifies with another id or time")
		}
		if len(body) > 0 {
			body[rapid.IntRange(0, len(body)-1).Draw(t, "place")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			if verify(secrets[0], id, at, body, header) == nil {
				t.Fatal("the signature verifies after a bit of the body changed")
			}
		}
	})
}

// verify checks a signature with the reference library, as a receiver does.
func verify(secret Secret, id string, at time.Time, body []byte, signature string) error {
	receiver, err := standardwebhooks.NewWebhook(secret.Text())
	if err != nil {
		return err
	}
	header := http.Header{}
	header.Set(standardwebhooks.HeaderWebhookID, id)
	header.Set(standardwebhooks.HeaderWebhookTimestamp, strconv.FormatInt(at.Unix(), 10))
	header.Set(standardwebhooks.HeaderWebhookSignature, signature)
	return receiver.VerifyIgnoringTimestamp(body, header)
}

func TestSign_IsAcceptedByReceiver(t *testing.T) {
	secret, body, now := NewSecret(), []byte(`{}`), time.Now()
	receiver, err := standardwebhooks.NewWebhook(secret.Text())
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	header.Set("webhook-id", "evt_1")
	header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	header.Set("webhook-signature", Sign([]Secret{secret}, "evt_1", now, body))
	if err := receiver.Verify(body, header); err != nil {
		t.Errorf("the reference library rejects the signature: %v", err)
	}
}

func TestParseSecret(t *testing.T) {
	secret := NewSecret()
	parsed, err := ParseSecret(secret.Text())
	if err != nil || !bytes.Equal(parsed, secret) || len(secret) != 32 || !strings.HasPrefix(secret.Text(), "whsec_") {
		t.Errorf("ParseSecret of a secret with %d bytes returns the same secret: %v, error %v; want 32 bytes and the prefix whsec_",
			len(secret), bytes.Equal(parsed, secret), err)
	}
	if bytes.Equal(secret, NewSecret()) {
		t.Error("two secrets are equal")
	}
	for _, text := range []string{"", "whsec_", "whsec", "WHSEC_AAAA", "AAAA", "whsec_AAA", "whsec_A-_=", "whsec_!", " whsec_AAAA"} {
		if secret, err := ParseSecret(text); err == nil || secret != nil {
			t.Errorf("ParseSecret(%q) returns %d bytes, error %v; want an error", text, len(secret), err)
		}
	}
}

func TestSecret_IsNeverPrinted(t *testing.T) {
	key := []byte("the quick brown fox jumps over. ")
	secret := Secret(key)
	holder := struct {
		Name    string
		Secret  Secret
		Secrets []Secret
		Any     any
		Pointer *Secret
	}{"x", secret, []Secret{secret, secret}, secret, &secret}

	var out bytes.Buffer
	for _, verb := range "vsxXqdobOcUtTeEfFgGp" {
		for _, flags := range []string{"", "+", "#", " ", "0", "-", "40", ".3"} {
			format := "%" + flags + string(verb) + "\n"
			_, _ = fmt.Fprintf(&out, format, secret)
			_, _ = fmt.Fprintf(&out, format, &secret)
			if verb != 'p' {
				_, _ = fmt.Fprintf(&out, format, holder)
				_, _ = fmt.Fprintf(&out, format, map[string]Secret{"a": secret})
			}
		}
	}
	_, _ = fmt.Fprintln(&out, secret, &secret, holder, secret.String(), fmt.Errorf("with %v", secret))
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("secrets", "secret", secret, "pointer", &secret, "secrets", []Secret{secret}, "holder", holder)
	}
	for _, v := range []any{secret, &secret, holder, map[string]any{"a": secret}} {
		if err := json.NewEncoder(&out).Encode(v); err != nil {
			t.Error(err)
		}
	}

	printed := out.String()
	for name, form := range map[string]string{
		"text": string(key[:9]), "quoted text": "quick",
		"base64": base64.StdEncoding.EncodeToString(key)[:8],
		"hex":    "746865207175", "spaced hex": "74 68 65 20", "spelled hex": "0x74, 0x68", "0x hex": "0x74 0x68", "0X HEX": "0X74 0X68",
		"decimal": "116 104 101", "octal": "164 150 145", "binary": "1110100 1101000", "runes": "U+0074", "characters": "t h e",
	} {
		if strings.Contains(printed, form) {
			t.Errorf("the secret was printed as %s", name)
		}
	}
	if n := strings.Count(printed, "(secret)"); n < 500 {
		t.Errorf("(secret) was printed %d times, want at least 500", n)
	}
}
