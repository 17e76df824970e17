// Package certificates keeps the TLS files of a process current. It reads a file again
// after its renewal, so that a renewed certificate needs no restart.
//
// If a changed file is not valid, for example because only one of two files is written
// yet, the process keeps the last valid content and logs an error.
package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// checkInterval is the time between two checks of the files. New connections use a renewed
// certificate at most this much later.
const checkInterval = time.Minute

// Files are the TLS files of a process. Add all files with Pair and Authorities, then call
// Run. Files is a prometheus.Collector.
type Files struct {
	log     *slog.Logger
	hangup  chan os.Signal
	entries []*entry
}

// entry is one registered setting with its files.
type entry struct {
	setting string
	// load reads the files and replaces the content that new connections use.
	load func() error
	// expires returns the time at which the certificate expires. It is nil if the entry is not
	// a certificate of this process.
	expires func() time.Time
	// failed is the error of the last load, or nil.
	failed atomic.Pointer[error]
}

// New returns an empty set of files.
func New(log *slog.Logger) *Files {
	return &Files{log: log, hangup: make(chan os.Signal, 1)}
}

// ReloadOnHangup makes SIGHUP reload the files. Without this call, SIGHUP ends the process.
func (f *Files) ReloadOnHangup() { signal.Notify(f.hangup, syscall.SIGHUP) }

// Pair is a certificate with its private key.
type Pair struct {
	current atomic.Pointer[tls.Certificate]
}

// Pair reads a certificate chain and its key from two PEM files. The parameter setting is the name
// of the variable with the path of the certificate. It is part of errors, logs and metrics.
func (f *Files) Pair(setting, certificate, key string) (*Pair, error) {
	p := &Pair{}
	load := func() error {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return fmt.Errorf("certificate: %w", err)
		}
		p.current.Store(&pair)
		return nil
	}
	return p, f.add(&entry{setting: setting, load: load, expires: func() time.Time { return p.current.Load().Leaf.NotAfter }})
}

// ForServer returns the certificate. It has the type of tls.Config.GetCertificate.
func (p *Pair) ForServer(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.current.Load(), nil
}

// ForClient returns the certificate. It has the type of tls.Config.GetClientCertificate.
func (p *Pair) ForClient(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return p.current.Load(), nil
}

// Authorities is a set of certificate authorities.
type Authorities struct{ current atomic.Pointer[x509.CertPool] }

// Authorities reads certificate authorities from a PEM file. The parameter setting is the name
// of the variable with the path. If withSystem is true, the set also contains the authorities
// of the system.
func (f *Files) Authorities(setting, path string, withSystem bool) (*Authorities, error) {
	a := &Authorities{}
	load := func() error {
		pool := x509.NewCertPool()
		if withSystem {
			var err error
			if pool, err = x509.SystemCertPool(); err != nil {
				return fmt.Errorf("read the system's certificate authorities: %w", err)
			}
		}
		body, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
		if err != nil {
			return fmt.Errorf("certificate authority: %w", err)
		}
		if !pool.AppendCertsFromPEM(body) {
			return fmt.Errorf("certificate authority: %s contains no certificate", path)
		}
		a.current.Store(pool)
		return nil
	}
	return a, f.add(&entry{setting: setting, load: load})
}

// Pool returns the set. The caller must not change it.
func (a *Authorities) Pool() *x509.CertPool { return a.current.Load() }

func (f *Files) add(e *entry) error {
	if err := e.load(); err != nil {
		return fmt.Errorf("%s: %w", e.setting, err)
	}
	f.entries = append(f.entries, e)
	return nil
}

// Run reloads the files once a minute and after SIGHUP, until ctx ends. After that, SIGHUP
// has no effect: it must not end a process that waits for its last requests.
func (f *Files) Run(ctx context.Context) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.hangup:
			f.log.LogAttrs(ctx, slog.LevelInfo, "SIGHUP: the TLS files are read again", slog.Int("files", len(f.entries)))
		case <-ticker.C:
		}
		f.Reload(ctx)
	}
}

// Reload reads all files again. It logs an error when a file becomes invalid, and when the
// reason why it is invalid changes.
func (f *Files) Reload(ctx context.Context) {
	for _, e := range f.entries {
		err := e.load()
		if err == nil {
			e.failed.Store(nil)
			continue
		}
		if before := e.failed.Swap(&err); before == nil || (*before).Error() != err.Error() {
			f.log.LogAttrs(ctx, slog.LevelError, "a TLS file is not valid: the process keeps the content that it has read before",
				slog.String("setting", e.setting), slog.String("error", err.Error()))
		}
	}
}

var (
	expiry = prometheus.NewDesc("tributary_tls_certificate_expiry_timestamp_seconds",
		"Unix time at which the certificate in use expires.", []string{"setting"}, nil)
	reloadFailed = prometheus.NewDesc("tributary_tls_reload_failed",
		"1 if the file of the setting was not valid when it was last read, so that an older certificate is in use.", []string{"setting"}, nil)
)

// Describe implements prometheus.Collector.
func (f *Files) Describe(descs chan<- *prometheus.Desc) {
	descs <- expiry
	descs <- reloadFailed
}

// Collect implements prometheus.Collector.
func (f *Files) Collect(values chan<- prometheus.Metric) {
	for _, e := range f.entries {
		failed := 0.0
		if e.failed.Load() != nil {
			failed = 1
		}
		values <- prometheus.MustNewConstMetric(reloadFailed, prometheus.GaugeValue, failed, e.setting)
		if e.expires != nil {
			values <- prometheus.MustNewConstMetric(expiry, prometheus.GaugeValue, float64(e.expires().Unix()), e.setting)
		}
	}
}
