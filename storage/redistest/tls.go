package redistest

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"time"

	"github.com/tributary-hq/tributary/test/authority"
	"github.com/tributary-hq/tributary/tools/servers"
)

// Config configures the servers of a private deployment. The zero value has no TLS.
type Config struct {
	// Authority signs the certificates of the servers, which then accept only TLS
	// connections. nil: no TLS.
	Authority *authority.Authority
	// Hosts are the names and addresses in the certificates of the Redis servers.
	// SentinelHosts are the names and addresses in the certificates of the sentinels. Default:
	// 127.0.0.1, which is the address of all servers.
	Hosts, SentinelHosts []string
	// Replicas is the number of replicas of a master with sentinels. Default: 1.
	Replicas int
}

func (c Config) hosts() []string         { return orLoopback(c.Hosts) }
func (c Config) sentinelHosts() []string { return orLoopback(c.SentinelHosts) }

func orLoopback(hosts []string) []string {
	if len(hosts) == 0 {
		return []string{"127.0.0.1"}
	}
	return hosts
}

// Renew gives a Redis server with TLS a new certificate for the given hosts. ca signs the certificate. New
// connections use it at once. Other servers of the deployment do not trust a new authority.
func (s *Server) Renew(ca *authority.Authority, hosts ...string) {
	s.t.Helper()
	client := s.client()
	files := s.issue(ca, hosts)
	// Redis reads the files again although their paths are the same.
	if err := client.ConfigSet(s.t.Context(), "tls-cert-file", files.Certificate).Err(); err != nil {
		s.t.Fatalf("redistest: renew the certificate: %v", err)
	}
}

// issue writes the TLS files of the server and configures the clients of this package.
func (s *Server) issue(ca *authority.Authority, hosts []string) *servers.RedisTLS {
	s.t.Helper()
	pair := ca.Issue(s.t, hosts[0], time.Now().Add(time.Hour), hosts[1:]...)
	files := &servers.RedisTLS{
		Certificate: filepath.Join(s.dir, "certificate.pem"), Key: filepath.Join(s.dir, "key.pem"), Authority: filepath.Join(s.dir, "authority.pem"),
	}
	for path, content := range map[string][]byte{files.Certificate: pair.Certificate, files.Key: pair.Key, files.Authority: ca.Certificate} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			s.t.Fatalf("redistest: %v", err)
		}
	}
	s.tls = &tls.Config{RootCAs: ca.Pool(), ServerName: hosts[0], MinVersion: tls.VersionTLS12}
	return files
}
