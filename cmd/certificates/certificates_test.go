package certificates_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/test/authority"
)

// folder holds the TLS files of a test.
type folder struct{ certificate, key, authorities string }

func newFolder(t *testing.T) folder {
	t.Helper()
	dir := t.TempDir()
	return folder{filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")}
}

// issue writes a certificate for 127.0.0.1 that ca signs, with its key.
func (f folder) issue(t *testing.T, ca *authority.Authority, expires time.Time) {
	t.Helper()
	pair := ca.Issue(t, "127.0.0.1", expires)
	write(t, f.certificate, pair.Certificate)
	write(t, f.key, pair.Key)
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve accepts TLS connections until the test ends. It returns the address.
func serve(t *testing.T, config *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).HandshakeContext(context.Background())
			_ = conn.Close()
		}
	}()
	return listener.Addr().String()
}

// servedExpiry connects to a server and returns when its certificate expires.
func servedExpiry(t *testing.T, address string, roots *x509.CertPool) time.Time {
	t.Helper()
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].NotAfter
}

func TestFiles_UsesRenewedCertificate(t *testing.T) {
	var log bytes.Buffer
	ca, f := authority.New(t), newFolder(t)
	first, second := time.Now().Add(time.Hour).UTC().Truncate(time.Second), time.Now().Add(48*time.Hour).UTC().Truncate(time.Second)
	f.issue(t, ca, first)
	files := certificates.New(slog.New(slog.NewJSONHandler(&log, nil)))
	pair, err := files.Pair("TRIBUTARY_TLS_CERT", f.certificate, f.key)
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, &tls.Config{GetCertificate: pair.ForServer, MinVersion: tls.VersionTLS12})
	check := func(step string, want time.Time, failed int) {
		t.Helper()
		files.Reload(t.Context())
		if got := servedExpiry(t, address, ca.Pool()); !got.Equal(want) {
			t.Errorf("%s: the served certificate expires at %s, want %s", step, got, want)
		}
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(files)
		metrics := `
# HELP tributary_tls_certificate_expiry_timestamp_seconds Unix time at which the certificate in use expires.
# TYPE tributary_tls_certificate_expiry_timestamp_seconds gauge
tributary_tls_certificate_expiry_timestamp_seconds{setting="TRIBUTARY_TLS_CERT"} ` + strconv.FormatInt(want.Unix(), 10) + `
# HELP tributary_tls_reload_failed 1 if the file of the setting was not valid when it was last read, so that an older certificate is in use.
# TYPE tributary_tls_reload_failed gauge
tributary_tls_reload_failed{setting="TRIBUTARY_TLS_CERT"} ` + strconv.Itoa(failed) + "\n"
		if err := testutil.GatherAndCompare(registry, strings.NewReader(metrics)); err != nil {
			t.Errorf("%s: %v", step, err)
		}
	}

	check("unchanged", first, 0)
	renewed := ca.Issue(t, "127.0.0.1", second)
	write(t, f.certificate, renewed.Certificate)
	check("the certificate is written and the key is not", first, 1)
	check("still not", first, 1)
	if count := strings.Count(log.String(), "a TLS file is not valid"); count != 1 {
		t.Errorf("the log has %d errors about the same fault, want 1: %s", count, log.String())
	}
	write(t, f.key, renewed.Key)
	check("both files are written", second, 0)
	if err := os.Remove(f.key); err != nil {
		t.Fatal(err)
	}
	check("the key is deleted", second, 1)
}

func TestFiles_UsesRenewedAuthorities(t *testing.T) {
	oldCA, newCA, f := authority.New(t), authority.New(t), newFolder(t)
	write(t, f.authorities, oldCA.Certificate)
	files := certificates.New(slog.New(slog.DiscardHandler))
	authorities, err := files.Authorities("TRIBUTARY_GRPC_TLS_CA", f.authorities, false)
	if err != nil {
		t.Fatal(err)
	}
	withSystem, err := files.Authorities("TRIBUTARY_WEBHOOK_CA_FILE", f.authorities, true)
	if err != nil {
		t.Fatal(err)
	}
	system, err := x509.SystemCertPool()
	if err != nil {
		t.Fatal(err)
	}
	for _, ca := range []*authority.Authority{oldCA, newCA} {
		write(t, f.authorities, ca.Certificate)
		files.Reload(t.Context())
		if !authorities.Pool().Equal(ca.Pool()) {
			t.Error("the authorities are not those of the file")
		}
		want := system.Clone()
		want.AppendCertsFromPEM(ca.Certificate)
		if !withSystem.Pool().Equal(want) {
			t.Error("the authorities are not those of the file and of the system")
		}
	}
	write(t, f.authorities, []byte("no certificate"))
	files.Reload(t.Context())
	if !authorities.Pool().Equal(newCA.Pool()) {
		t.Error("a file without a certificate has replaced the authorities")
	}
}

func TestFiles_RejectsInvalidFilesAtTheStart(t *testing.T) {
	ca, f := authority.New(t), newFolder(t)
	f.issue(t, ca, time.Now().Add(time.Hour))
	write(t, f.authorities, []byte("no certificate"))
	files := certificates.New(slog.New(slog.DiscardHandler))
	if _, err := files.Pair("TRIBUTARY_TLS_CERT", f.key, f.certificate); err == nil || !strings.HasPrefix(err.Error(), "TRIBUTARY_TLS_CERT: certificate: ") {
		t.Errorf("exchanged files: got the error %v", err)
	}
	if _, err := files.Authorities("TRIBUTARY_GRPC_TLS_CA", f.authorities, false); err == nil || !strings.HasPrefix(err.Error(), "TRIBUTARY_GRPC_TLS_CA: certificate authority: ") {
		t.Errorf("a file without a certificate: got the error %v", err)
	}
	if _, err := files.Authorities("TRIBUTARY_GRPC_TLS_CA", filepath.Join(t.TempDir(), "none"), false); err == nil {
		t.Error("a missing file was accepted")
	}
}

func TestFiles_ReloadAfterHangup(t *testing.T) {
	ca, f := authority.New(t), newFolder(t)
	first, second := time.Now().Add(time.Hour).UTC().Truncate(time.Second), time.Now().Add(48*time.Hour).UTC().Truncate(time.Second)
	f.issue(t, ca, first)
	files := certificates.New(slog.New(slog.DiscardHandler))
	files.ReloadOnHangup()
	pair, err := files.Pair("TRIBUTARY_TLS_CERT", f.certificate, f.key)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- files.Run(ctx) }()

	f.issue(t, ca, second)
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		current, err := pair.ForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		if current.Leaf.NotAfter.Equal(second) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the certificate was not read again after SIGHUP")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	// A process that stops must survive the signal.
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	time.Sleep(50 * time.Millisecond) // a signal that ends the process would do it in this time
}
