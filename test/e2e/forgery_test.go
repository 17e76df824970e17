package e2e_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

type ed25519PublicKey = ed25519.PublicKey

func signingKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(signingSeed) }

func otherKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
}

// forgeToken returns a copy of an access token. The function change modifies the copy,
// and key signs it.
func forgeToken(t *testing.T, genuine string, change func(*jwt.Token, jwt.MapClaims), key any) string {
	t.Helper()
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(genuine, claims)
	if err != nil {
		t.Fatalf("parse the genuine token: %v", err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = parsed.Header["kid"]
	change(token, claims)
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func noChange(*jwt.Token, jwt.MapClaims) {}

func asNone(token *jwt.Token, _ jwt.MapClaims) {
	token.Method = jwt.SigningMethodNone
	token.Header["alg"] = "none"
}

func asHMAC(token *jwt.Token, _ jwt.MapClaims) {
	token.Method = jwt.SigningMethodHS256
	token.Header["alg"] = "HS256"
}
