package main

import (
	"bytes"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestLoadAuthority_ReplacesUnusableAuthority(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		damage       func(certificate, key string) error
		at           time.Time
		wantReplaced bool
	}{
		"valid":                   {at: now},
		"at half of its lifetime": {at: now.Add(authorityLifetime / 2)},
		"about to expire":         {at: now.Add(authorityLifetime - certificateLifetime), wantReplaced: true},
		"expired":                 {at: now.Add(2 * authorityLifetime), wantReplaced: true},
		"missing key":             {damage: func(_, key string) error { return os.Remove(key) }, at: now, wantReplaced: true},
		"missing certificate":     {damage: func(certificate, _ string) error { return os.Remove(certificate) }, at: now, wantReplaced: true},
		"truncated certificate":   {damage: func(certificate, _ string) error { return os.Truncate(certificate, 40) }, at: now, wantReplaced: true},
		"certificate of another authority": {
			damage: func(certificate, key string) error {
				_, err := loadAuthority(certificate, key+".other", now)
				return err
			},
			at: now, wantReplaced: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certificate, key := filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName)
			first := mustLoadAuthority(t, certificate, key, now)
			if test.damage != nil {
				if err := test.damage(certificate, key); err != nil {
					t.Fatal(err)
				}
			}
			second := mustLoadAuthority(t, certificate, key, test.at)
			if replaced := !bytes.Equal(first.Certificate[0], second.Certificate[0]); replaced != test.wantReplaced {
				t.Errorf("loadAuthority replaced the authority: %t, want %t", replaced, test.wantReplaced)
			}
			if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("os.Stat(key) = %v, %v; want mode 0600", info, err)
			}
		})
	}
}

func mustLoadAuthority(t *testing.T, certificate, key string, now time.Time) tls.Certificate {
	t.Helper()
	authority, err := loadAuthority(certificate, key, now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func TestCertify_IsValidOnlyForThisMachine(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	authority := mustLoadAuthority(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), now)
	created, err := certify(authority, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf := mustParse(t, created.keyPair.Certificate[0])
	for _, host := range []string{"localhost", "127.0.0.1", "::1"} {
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: poolWith(authority), DNSName: host}); err != nil {
			t.Errorf("the certificate is not valid for %s: %v", host, err)
		}
	}
	forged := *leaf
	forged.DNSNames, forged.IPAddresses = []string{"shop.example"}, nil
	der, err := x509.CreateCertificate(rand.Reader, &forged, authority.Leaf, leaf.PublicKey, authority.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := mustParse(t, der).Verify(x509.VerifyOptions{Roots: poolWith(authority), DNSName: "shop.example"}); err == nil {
		t.Error("a certificate for shop.example is valid")
	}
}

func mustParse(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

func TestWriteReceiverCertificate(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	if err := writeReceiverCertificate(dir, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "start the demo once") {
		t.Errorf("without an authority: got %v, want the advice to start the demo once", err)
	}
	authority := mustLoadAuthority(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), time.Now())
	if err := writeReceiverCertificate(dir, []string{"shop.example"}, io.Discard); !errors.Is(err, errUsage) {
		t.Errorf("with an argument: got %v, want the usage", err)
	}
	var printed bytes.Buffer
	if err := writeReceiverCertificate(dir, []string{"--out", out}, &printed); err != nil {
		t.Fatal(err)
	}
	certificate, key := filepath.Join(out, "receiver.pem"), filepath.Join(out, "receiver.key")
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: poolWith(authority), DNSName: "localhost"}); err != nil {
		t.Errorf("the written certificate is not valid for localhost: %v", err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("os.Stat(%s) = %v, %v; want mode 0600", key, info, err)
	}
	if !strings.Contains(printed.String(), certificate) || !strings.Contains(printed.String(), key) {
		t.Errorf("the output does not name the files:\n%s", printed.String())
	}
}
