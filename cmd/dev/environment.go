package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
)

const (
	allowHTTPName      = "TRIBUTARY_ALLOW_HTTP"
	trustedProxiesName = "TRIBUTARY_TRUSTED_PROXIES"
	shutdownDelayName  = "TRIBUTARY_SHUTDOWN_DELAY"
	webhookAllowName   = "TRIBUTARY_WEBHOOK_ALLOW_CIDRS"
	webhookCAName      = "TRIBUTARY_WEBHOOK_CA_FILE"
	registrationName   = "TRIBUTARY_REGISTRATION_MERCHANT"

	loopback = "127.0.0.0/8,::1/128"
)

// ports lists the variables that hold the addresses of the ports, with their defaults.
var ports = []variable{
	{"TRIBUTARY_API_LISTEN", "127.0.0.1:8080"},
	{"TRIBUTARY_COLLECTOR_LISTEN", "127.0.0.1:8081"},
	{"TRIBUTARY_GRPC_LISTEN", "127.0.0.1:9090"},
	{"TRIBUTARY_METRICS_LISTEN", "127.0.0.1:9100"},
	{shopListenName, "127.0.0.1:8082"},
	{mailSMTPListenName, "127.0.0.1:1025"},
	{mailSinkListenName, "127.0.0.1:8084"},
	{"TRIBUTARY_LANDING_LISTEN", "127.0.0.1:8083"},
}

// The variables that hold the addresses of the demo shop and of the mail sink, which receives
// mails over SMTP and shows them over HTTP. The shop and the sink are part of dev; no other
// program serves them.
const (
	shopListenName     = "TRIBUTARY_SHOP_LISTEN"
	mailSMTPListenName = "TRIBUTARY_MAIL_SMTP_LISTEN"
	mailSinkListenName = "TRIBUTARY_MAIL_SINK_LISTEN"
)

// environment returns the settings of this run. environ is the environment of the
// process, as lines of the form NAME=value. If environ does not set a secret, the value
// from the map secrets is used. Most other settings that environ does not set get a
// default for development.
//
// lastServers holds the addresses of the private servers of the previous run. A shell
// that has sourced .dev/env exports these addresses, but the servers no longer run.
// Therefore environment ignores an address in environ that is the same as in lastServers,
// and the run starts the server again.
func environment(environ []string, secrets, lastServers map[string]string) map[string]string {
	values := map[string]string{}
	for _, line := range environ {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "TRIBUTARY_") {
			values[name] = value
		}
	}
	for _, name := range []string{databaseURLName, redisURLName, stripeURLName} {
		if values[name] == lastServers[name] {
			delete(values, name)
		}
	}
	// A development run does not use TLS.
	for name := range values {
		if strings.HasPrefix(name, "TRIBUTARY_TLS_") || strings.HasPrefix(name, "TRIBUTARY_GRPC_TLS_") {
			delete(values, name)
		}
	}
	missing := func(name string) bool { return isMissing(values, name) }
	for name, secret := range secrets {
		if missing(name) {
			values[name] = secret
		}
	}
	for _, port := range ports {
		if values[port.name] == "" {
			values[port.name] = port.value
		}
	}
	if missing(trustedProxiesName) {
		values[trustedProxiesName] = loopback
	}
	if missing(registrationName) {
		values[registrationName] = "open" // the demo registers its merchant
	}
	if allLoopback(values) {
		if missing(allowHTTPName) {
			values[allowHTTPName] = "true"
		}
		// The webhook receiver that `dev listen` starts is on loopback. If other machines
		// can reach the API, webhooks must not be sent to loopback, because other users
		// could then send requests to this machine.
		if missing(webhookAllowName) {
			values[webhookAllowName] = loopback
		}
	}
	// The shutdown delay gives a load balancer time to detect that the collector stops.
	// In development there is no load balancer.
	if missing(shutdownDelayName) {
		values[shutdownDelayName] = "0s"
	}
	return values
}

// isMissing reports whether neither a setting nor the file with its value is set.
func isMissing(values map[string]string, name string) bool {
	return values[name] == "" && values[name+"_FILE"] == ""
}

// allLoopback reports whether all ports are on loopback.
func allLoopback(values map[string]string) bool {
	for _, port := range ports {
		host, _, err := net.SplitHostPort(values[port.name])
		if err != nil {
			return false
		}
		addr, err := netip.ParseAddr(host)
		if host != "localhost" && (err != nil || !addr.IsLoopback()) {
			return false
		}
	}
	return true
}

// privateURL is the placeholder for the URL of a Postgres or Redis that this run starts
// itself. When the server runs, its URL replaces the placeholder.
const privateURL = "redis://private"

// configure parses the settings of the core, of the collector and of the landing service.
func configure(environment map[string]string) (settings.Core, collector.Config, settings.Landing, error) {
	values := maps.Clone(environment)
	for _, name := range []string{databaseURLName, redisURLName} {
		if isMissing(values, name) {
			values[name] = privateURL
		}
	}
	var lines []string
	for name, value := range values {
		lines = append(lines, name+"="+value)
	}
	core, err := settings.Parse[settings.Core](lines)
	collectorSettings, collectorErr := settings.Parse[settings.Collector](lines)
	landing, landingErr := settings.Parse[settings.Landing](lines)
	// The programs read many of the same variables, and an invalid variable would be
	// reported several times. Therefore only the errors of the first program with errors are
	// returned.
	for _, other := range []error{collectorErr, landingErr} {
		if err == nil {
			err = other
		}
	}
	if err == nil && !core.AllowHTTP {
		err = fmt.Errorf("%s: `make run` serves plain HTTP. This is allowed if every port is on loopback; "+
			"otherwise set %[1]s=true", allowHTTPName)
	}
	return core, edge.Config(collectorSettings, nil), landing, err
}

// portListeners contains the listeners of a run, in the order of the variable ports.
type portListeners [8]net.Listener

// listen opens all ports. It is called before any server starts, so that a port in use is
// reported immediately.
func listen(environment map[string]string) (portListeners, error) {
	var open portListeners
	var faults []error
	for i, port := range ports {
		address := environment[port.name]
		l, err := net.Listen("tcp", address) //nolint:noctx // binds and returns at once
		switch {
		case errors.Is(err, syscall.EADDRINUSE):
			faults = append(faults, fmt.Errorf("%s is in use: stop the program that listens there, or set %s to another address", address, port.name))
		case err != nil:
			faults = append(faults, fmt.Errorf("%s: %w", port.name, err))
		default:
			open[i] = l
		}
	}
	if len(faults) > 0 {
		open.close()
		return portListeners{}, errors.Join(faults...)
	}
	return open, nil
}

// close closes the listeners that are still open.
func (l portListeners) close() {
	for _, listener := range l {
		if listener != nil {
			_ = listener.Close() // fails if a server has already closed the listener
		}
	}
}

// address returns the address at which clients on this machine reach a listener.
func address(l net.Listener) string {
	addr := l.Addr().(*net.TCPAddr)
	host := addr.IP.String()
	if addr.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(addr.Port))
}

// The settings of the core's mail that dev sets.
const (
	smtpURLName   = "TRIBUTARY_SMTP_URL"
	mailFromName  = "TRIBUTARY_MAIL_FROM"
	publicURLName = "TRIBUTARY_PUBLIC_URL"
)

// mailCapacity is the number of mails that the mail sink keeps.
const mailCapacity = 1000

// sendToSink sets the settings of the core's mail that the map values does not contain. With
// these settings the core sends all mails to the mail sink, so that no mail leaves the machine.
// The links in the mails lead to the REST API of this run.
func sendToSink(values map[string]string, listeners portListeners) {
	for name, value := range map[string]string{
		smtpURLName:   "smtp://" + address(listeners.mailSMTP()) + "?tls=none",
		mailFromName:  "Tributary <mail@tributary.localhost>",
		publicURLName: "http://" + address(listeners.api()),
	} {
		if isMissing(values, name) {
			values[name] = value
		}
	}
}
