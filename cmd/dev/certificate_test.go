package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestAuthorityIsMadeOnceAndAnewWhenItIsNoGood(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		spoil func(certificate, key string) error
		at    time.Time
		anew  bool
	}{
		"kept":                   {at: now},
		"kept for half its life": {at: now.Add(authorityLasts / 2)},
		"about to expire":        {at: now.Add(authorityLasts - certificateLasts), anew: true},
		"expired":                {at: now.Add(2 * authorityLasts), anew: true},
		"key lost":               {spoil: func(_, key string) error { return os.Remove(key) }, at: now, anew: true},
		"certificate lost":       {spoil: func(certificate, _ string) error { return os.Remove(certificate) }, at: now, anew: true},
		"certificate cut short":  {spoil: func(certificate, _ string) error { return os.Truncate(certificate, 40) }, at: now, anew: true},
		"certificate of another": {
			spoil: func(certificate, key string) error {
				_, err := loadAuthority(certificate, key+".other", now)
				return err
			},
			at: now, anew: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certificate, key := filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName)
			first := authorityAt(t, certificate, key, now)
			if test.spoil != nil {
				if err := test.spoil(certificate, key); err != nil {
					t.Fatal(err)
				}
			}
			second := authorityAt(t, certificate, key, test.at)
			if anew := !bytes.Equal(first.Certificate[0], second.Certificate[0]); anew != test.anew {
				t.Errorf("made anew: %t, want %t", anew, test.anew)
			}
			if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("key: %v, %v; want mode 0600", info, err)
			}
		})
	}
}

func authorityAt(t *testing.T, certificate, key string, now time.Time) tls.Certificate {
	t.Helper()
	authority, err := loadAuthority(certificate, key, now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func TestAuthorityVouchesForThisMachineOnly(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	authority := authorityAt(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), now)
	made, err := certify(authority, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf := parsed(t, made.Certificate[0])
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: trusting(authority), DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
	forged := *leaf
	forged.DNSNames, forged.IPAddresses = []string{"shop.example"}, nil
	der, err := x509.CreateCertificate(rand.Reader, &forged, authority.Leaf, leaf.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := parsed(t, der).Verify(x509.VerifyOptions{Roots: trusting(authority), DNSName: "shop.example"}); err == nil {
		t.Error("it vouches for shop.example")
	}
}

func parsed(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
