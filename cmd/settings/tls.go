package settings

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/tributary-hq/tributary/cmd/certificates"
)

// ServerTLS returns the TLS configuration of the public port, or nil if no certificate is
// set. It adds the certificate to files.
func (h HTTP) ServerTLS(files *certificates.Files) (*tls.Config, error) {
	if h.TLSCert == "" {
		return nil, nil
	}
	pair, err := files.Pair("TRIBUTARY_TLS_CERT", h.TLSCert, h.TLSKey)
	if err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: pair.ForServer, MinVersion: tls.VersionTLS12}, nil
}

// GRPCTLS returns the TLS configuration of the gRPC port, or nil if no certificate is
// set. It adds the certificate and the authority of the clients to files.
func (c *Core) GRPCTLS(files *certificates.Files) (*tls.Config, error) {
	if c.GRPCTLSCert == "" {
		return nil, nil
	}
	pair, err := files.Pair("TRIBUTARY_GRPC_TLS_CERT", c.GRPCTLSCert, c.GRPCTLSKey)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{GetCertificate: pair.ForServer, MinVersion: tls.VersionTLS12}
	if c.GRPCTLSCA == "" {
		return config, nil
	}
	clients, err := files.Authorities("TRIBUTARY_GRPC_TLS_CA", c.GRPCTLSCA, false)
	if err != nil {
		return nil, err
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{
			GetCertificate: pair.ForServer, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(), MinVersion: tls.VersionTLS12,
		}, nil
	}
	return config, nil
}

// RedisRoots returns a function that returns the certificate authorities of Redis and of
// the sentinels. It returns nil if the authorities of the system are used. It adds the file
// of the authorities to files, so call it once.
func (r *Redis) RedisRoots(files *certificates.Files) (func() *x509.CertPool, error) {
	return roots(files, "TRIBUTARY_REDIS_CA_FILE", r.CAFile, false)
}

// RedisRoots is Redis.RedisRoots.
func (r LandingRedis) RedisRoots(files *certificates.Files) (func() *x509.CertPool, error) {
	return r.redis().RedisRoots(files)
}

// WebhookRoots returns a function that returns the certificate authorities that webhooks
// trust. It returns nil if webhooks trust only the authorities of the system. It adds the
// file of the authorities to files.
func (c *Core) WebhookRoots(files *certificates.Files) (func() *x509.CertPool, error) {
	return roots(files, "TRIBUTARY_WEBHOOK_CA_FILE", c.WebhookCAFile, true)
}

// roots adds a file of certificate authorities to files. It returns a function that returns
// the authorities, or nil if path is empty.
func roots(files *certificates.Files, setting, path string, withSystem bool) (func() *x509.CertPool, error) {
	if path == "" {
		return nil, nil
	}
	authorities, err := files.Authorities(setting, path, withSystem)
	if err != nil {
		return nil, err
	}
	return authorities.Pool, nil
}

// CoreTLS returns a function that returns the TLS configuration for a new connection from
// the gateway to the core. It returns nil if the connection is not encrypted. It adds the
// certificate and the authority of the core to files.
func (g *Gateway) CoreTLS(files *certificates.Files) (func() *tls.Config, error) {
	if g.CoreCA == "" {
		return nil, nil
	}
	core, err := files.Authorities("TRIBUTARY_GRPC_TLS_CA", g.CoreCA, false)
	if err != nil {
		return nil, err
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if g.ClientCert != "" {
		pair, err := files.Pair("TRIBUTARY_GRPC_TLS_CERT", g.ClientCert, g.ClientKey)
		if err != nil {
			return nil, err
		}
		config.GetClientCertificate = pair.ForClient
	}
	return func() *tls.Config {
		current := config.Clone()
		current.RootCAs = core.Pool()
		return current
	}, nil
}
