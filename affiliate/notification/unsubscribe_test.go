package notification_test

import (
	"bytes"
	"encoding/base64"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
)

func TestUnsubscribeTokens_AcceptOnlyTheirOwnTokens(t *testing.T) {
	tokens := notification.NewUnsubscribeTokens(affiliate.HashKeys{[]byte("key")})
	user := affiliate.NewID[affiliate.UserID](time.Now())
	token := tokens.Token(user, notification.CategoryConversions)
	if gotUser, category, ok := tokens.Parse(token); !ok || gotUser != user || category != notification.CategoryConversions {
		t.Errorf("Parse = %v, %q, %t; want the user and the category of the token", gotUser, category, ok)
	}
	data, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if _, _, ok := tokens.Parse(base64.RawURLEncoding.EncodeToString(changed)); ok {
			t.Errorf("Parse accepts a token whose byte %d was changed", i)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "not base64": "€", "too short": "AAAA", "padded": token + "=", "truncated": token[:len(token)-4],
		"of another key": notification.NewUnsubscribeTokens(affiliate.HashKeys{[]byte("other")}).Token(user, notification.CategoryConversions),
	} {
		if _, _, ok := tokens.Parse(text); ok {
			t.Errorf("Parse accepts a token that is %s", name)
		}
	}
}
