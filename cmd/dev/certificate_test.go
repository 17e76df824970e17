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

func TestLoadAuthority_ReplacesAnUnusableAuthority(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, test := range map[string]struct {
		spoil    func(certificate, key string) error
		at       time.Time
		replaced bool
	}{
		"kept":                   {at: now},
		"kept for half its life": {at: now.Add(authorityLasts / 2)},
		"about to expire":        {at: now.Add(authorityLasts - certificateLasts), replaced: true},
		"expired":                {at: now.Add(2 * authorityLasts), replaced: true},
		"key lost":               {spoil: func(_, key string) error { return os.Remove(key) }, at: now, replaced: true},
		"certificate lost":       {spoil: func(certificate, _ string) error { return os.Remove(certificate) }, at: now, replaced: true},
		"certificate cut short":  {spoil: func(certificate, _ string) error { return os.Truncate(certificate, 40) }, at: now, replaced: true},
		"certificate of another": {
			spoil: func(certificate, key string) error {
				_, err := loadAuthority(certificate, key+".other", now)
				return err
			},
			at: now, replaced: true,
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
			if replaced := !bytes.Equal(first.Certificate[0], second.Certificate[0]); replaced != test.replaced {
				t.Errorf("replaced: %t, want %t", replaced, test.replaced)
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

func TestCertify_IsForThisMachineOnly(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	authority := authorityAt(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), now)
	made, err := certify(authority, now)
	if err != nil {
		t.Fatal(err)
	}
	leaf := parsed(t, made.pair.Certificate[0])
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
		t.Error("a certificate for shop.example is valid")
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

func TestWriteReceiverCertificate(t *testing.T) {
	t.Parallel()
	dir, out := t.TempDir(), t.TempDir()
	if err := writeReceiverCertificate(dir, nil, io.Discard); err == nil || !strings.Contains(err.Error(), "start the demo once") {
		t.Errorf("without an authority: got %v", err)
	}
	authority := authorityAt(t, filepath.Join(dir, authorityName), filepath.Join(dir, authorityKeyName), time.Now())
	if err := writeReceiverCertificate(dir, []string{"shop.example"}, io.Discard); !errors.Is(err, errUsage) {
		t.Errorf("for another host: got %v, want the usage", err)
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
	if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: trusting(authority), DNSName: "localhost"}); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("key: got %v, %v, want mode 0600", info, err)
	}
	if !strings.Contains(printed.String(), certificate) || !strings.Contains(printed.String(), key) {
		t.Errorf("the output does not name the files:\n%s", printed.String())
	}
}
