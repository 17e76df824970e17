package settings

import (
	"crypto/tls"
	"crypto/x509"

	"github.com/tributary-hq/tributary/cmd/certificates"
)

// serverTLS returns the TLS configuration of a server, or nil if no certificate is set. It
// adds the certificate to the given Files.
func serverTLS(files *certificates.Files, setting, cert, key string) (*tls.Config, error) {
	if cert == "" {
		return nil, nil
	}
	pair, err := files.Pair(setting, cert, key)
	if err != nil {
		return nil, err
	}
	return &tls.Config{GetCertificate: pair.ForServer, MinVersion: tls.VersionTLS12}, nil
}

// ServerTLS returns the TLS configuration of the public port, or nil if no certificate is
// set. It adds the certificate to the given Files.
func (h HTTP) ServerTLS(files *certificates.Files) (*tls.Config, error) {
	return serverTLS(files, "TRIBUTARY_TLS_CERT", h.TLSCert, h.TLSKey)
}

// GRPCTLS returns the TLS configuration of the gRPC port, or nil if no certificate is
// set. It adds the certificate and the authority of the clients to the given Files.
func (c *Core) GRPCTLS(files *certificates.Files) (*tls.Config, error) {
	config, err := serverTLS(files, "TRIBUTARY_GRPC_TLS_CERT", c.GRPCTLSCert, c.GRPCTLSKey)
	if err != nil || config == nil || c.GRPCTLSCA == "" {
		return config, err
	}
	clients, err := files.Authorities("TRIBUTARY_GRPC_TLS_CA", c.GRPCTLSCA, false)
	if err != nil {
		return nil, err
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		return &tls.Config{
			GetCertificate: config.GetCertificate, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients.Pool(), MinVersion: tls.VersionTLS12,
		}, nil
	}
	return config, nil
}

// RedisRoots returns a function that returns the certificate authorities of Redis and of
// the sentinels. It returns nil if the authorities of the system are used. It adds the file
// of the authorities to the given Files, so call it once.
func (r RedisOptions) RedisRoots(files *certificates.Files) (func() *x509.CertPool, error) {
	return roots(files, "TRIBUTARY_REDIS_CA_FILE", r.CAFile, false)
}

// WebhookRoots returns a function that returns the certificate authorities that webhooks
// trust. It returns nil if webhooks trust only the authorities of the system. It adds the
// file of the authorities to the given Files.
func (c *Core) WebhookRoots(files *certificates.Files) (func() *x509.CertPool, error) {
	return roots(files, "TRIBUTARY_WEBHOOK_CA_FILE", c.WebhookCAFile, true)
}

// roots adds a file of certificate authorities to the given Files. It returns a function that returns
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
// certificate of the gateway and the authority of the core to the given Files.
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
