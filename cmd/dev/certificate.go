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
	// authorityName and authorityKeyName are the files of the certificate authority in
	// the data folder of `make run`. The core trusts the certificate. The key signs the
	// certificates of webhook receivers.
	authorityName    = "webhook-ca.pem"
	authorityKeyName = "webhook-ca.key"

	authorityLifetime   = 365 * 24 * time.Hour
	certificateLifetime = 30 * 24 * time.Hour
	// The validity of a certificate begins validBefore before its creation, so that a program
	// whose clock is slow accepts a new certificate.
	validBefore = time.Hour
)

// readAuthority reads the authority from its two files.
func readAuthority(certificate, key string) (tls.Certificate, error) {
	return tls.LoadX509KeyPair(certificate, key)
}

// loadAuthority returns the authority in the two files. It creates a new authority if a
// file is missing or damaged, or if the authority would expire before a certificate that
// it signs now.
func loadAuthority(certificate, key string, now time.Time) (tls.Certificate, error) {
	existing, err := readAuthority(certificate, key)
	if err == nil && now.Add(certificateLifetime).Before(existing.Leaf.NotAfter) {
		return existing, nil
	}
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	// These constraints protect the developer if the key of the authority is stolen: a
	// certificate that the key signs is valid only for loopback.
	_, loopback4, _ := net.ParseCIDR("127.0.0.0/8")
	_, loopback6, _ := net.ParseCIDR("::1/128")
	template := &x509.Certificate{
		Subject:                     pkix.Name{CommonName: "Tributary make run"},
		NotBefore:                   now.Add(-validBefore),
		NotAfter:                    now.Add(authorityLifetime),
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
	// Write the key first. If the process is killed between the two writes, the key does
	// not match the certificate, and the next start creates both files again.
	err = errors.Join(
		writeFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})),
		writeFile(certificate, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})),
	)
	if err != nil {
		return tls.Certificate{}, err
	}
	return readAuthority(certificate, key)
}

// localCertificate is a certificate for this machine, with the private key of the
// certificate. keyPair holds both; certificate and key hold the same values in PEM
// format.
type localCertificate struct {
	keyPair          tls.Certificate
	certificate, key []byte
}

// certify returns a certificate for localhost, 127.0.0.1 and ::1 that is valid for 30
// days.
func certify(authority tls.Certificate, now time.Time) (localCertificate, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return localCertificate{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		NotBefore:   now.Add(-validBefore),
		NotAfter:    now.Add(certificateLifetime),
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
		keyPair:     tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private},
		certificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		key:         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8}),
	}, nil
}

// writeReceiverCertificate writes a certificate for the developer's own webhook receiver.
// The core of `make run` accepts the certificate, because the core trusts the authority.
func writeReceiverCertificate(path string, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("cert", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	folder := flags.String("out", ".", "")
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("%w\n%w", err, errUsage)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("cert takes no host: the certificate is always for localhost, 127.0.0.1 and ::1\n%w", errUsage)
	}
	authority, err := readAuthority(filepath.Join(path, authorityName), filepath.Join(path, authorityKeyName))
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("there is no certificate authority yet: start the demo once with make run")
	} else if err != nil {
		return err
	}
	created, err := certify(authority, time.Now())
	if err != nil {
		return err
	}
	certificate, key := filepath.Join(*folder, "receiver.pem"), filepath.Join(*folder, "receiver.key")
	if err := errors.Join(writeFile(key, created.key), writeFile(certificate, created.certificate)); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "Wrote %s and %s, valid for 30 days at localhost, 127.0.0.1 and ::1.\n"+
		"The demo delivers webhooks to an HTTPS server on this machine that uses these files.\n", certificate, key)
	return err
}

// poolWith returns a certificate pool that contains only the authority.
func poolWith(authority tls.Certificate) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	return pool
}
