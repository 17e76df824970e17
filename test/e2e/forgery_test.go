package e2e_test

import (
	"bytes"
	"crypto/ed25519"
	"testing"

	"github.com/golang-jwt/jwt/v5"
)

type ed25519PublicKey = ed25519.PublicKey

func signingKey() ed25519.PrivateKey { return ed25519.NewKeyFromSeed(signingSeed) }

func foreignSigningKey() ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, ed25519.SeedSize))
}

// forgeToken returns a changed copy of an access token. It calls modify with the copy and
// then signs the copy with signer.
func forgeToken(t *testing.T, genuine string, modify func(*jwt.Token, jwt.MapClaims), signer any) string {
	t.Helper()
	claims := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(genuine, claims)
	if err != nil {
		t.Fatalf("parse the genuine token: %v", err)
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, claims)
	token.Header["kid"] = parsed.Header["kid"]
	modify(token, claims)
	text, err := token.SignedString(signer)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func noChange(*jwt.Token, jwt.MapClaims) {}

// withAlgorithmNone removes the signature of a token.
func withAlgorithmNone(token *jwt.Token, _ jwt.MapClaims) {
	token.Method = jwt.SigningMethodNone
	token.Header["alg"] = "none"
}

// withAlgorithmHMAC selects a signature with a symmetric key.
func withAlgorithmHMAC(token *jwt.Token, _ jwt.MapClaims) {
	token.Method = jwt.SigningMethodHS256
	token.Header["alg"] = "HS256"
}
