package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"path/filepath"
	"time"
)

const (
	// authorityName and authorityKeyName are the files of the certificate authority in the
	// folder. The core trusts the certificate; the key signs certificates of receivers.
	authorityName    = "webhook-ca.pem"
	authorityKeyName = "webhook-ca.key"

	authorityLasts   = 365 * 24 * time.Hour
	certificateLasts = 30 * 24 * time.Hour
	// clockSlack is how long before now certificates begin to be valid.
	clockSlack = time.Hour
)

// readAuthority reads the authority of a folder.
func readAuthority(certificate, key string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(certificate, key)
}

// loadAuthority returns the authority of a folder. It creates a new one if a file is missing
// or damaged, or if the authority would expire before a certificate that it signs now.
func loadAuthority(certificate, key string, now time.Time) (tls.Certificate, error) {
	kept, err := readAuthority(certificate, key)
	if err == nil && now.Add(certificateLasts).Before(kept.Leaf.NotAfter) {
		return kept, nil
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	// A stolen key can sign certificates for loopback only.
	_, loopback4, _ := net.ParseCIDR("127.0.0.0/8")
	_, loopback6, _ := net.ParseCIDR("::1/128")
	template := &x509.Certificate{
		Subject:                     pkix.Name{CommonName: "Tributary make run"},
		NotBefore:                   now.Add(-clockSlack),
		NotAfter:                    now.Add(authorityLasts),
		KeyUsage:                    x509.KeyUsageCertSign,
		BasicConstraintsValid:       true,
		IsCA:                        true,
		MaxPathLenZero:              true,
		PermittedDNSDomainsCritical: true,
		PermittedDNSDomains:         []string{"localhost"},
		PermittedIPRanges:           []*net.IPNet{loopback4, loopback6},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return tls.Certificate{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return tls.Certificate{}, err
	}
	// The key is written first, because a key without a certificate has no effect.
	err = errors.Join(
		writeFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		writeFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	)
	if err != nil {
		return tls.Certificate{}, err
	}
	return readAuthority(certificate, key)
}

// localCertificate is a certificate for this machine, as a pair and as PEM.
type localCertificate struct {
	pair             tls.Certificate
	certificate, key []byte
}

// certify returns a certificate for localhost, 127.0.0.1 and ::1 that is valid for 30 days.
func certify(authority tls.Certificate, now time.Time) (localCertificate, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return localCertificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore:   now.Add(-clockSlack),
		NotAfter:    now.Add(certificateLasts),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}, authority.Leaf, private.Public(), authority.PrivateKey)
	if err != nil {
		return localCertificate{}, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return localCertificate{}, err
	}
	return localCertificate{
		pair:        tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private},
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}

// writeReceiverCertificate writes a certificate for the developer's own receiver. The core
// of make run accepts it, because it trusts the authority.
func writeReceiverCertificate(path string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cert", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder := flags.String("out", ".", "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%w", err, errUsage)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("the certificate is for localhost, 127.0.0.1 and ::1 only\n%w", errUsage)
	}
	authority, err := readAuthority(filepath.Join(path, authorityName), filepath.Join(path, authorityKeyName))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no certificate authority yet: start the demo once with make run")
	} else if err != nil {
		return err
	}
	made, err := certify(authority, time.Now())
	if err != nil {
		return err
	}
	certificate, key := filepath.Join(*folder, "receiver.pem"), filepath.Join(*folder, "receiver.key")
	if err := errors.Join(writeFile(key, made.key), writeFile(certificate, made.certificate)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Wrote %s and %s, valid for 30 days at localhost, 127.0.0.1 and ::1.\nThe demo delivers webhooks to an https server on this machine that uses them.\n", certificate, key)
	return err
}

// trusting returns a pool with the authority only.
func trusting(authority tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	return pool
}
