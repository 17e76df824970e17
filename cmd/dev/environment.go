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

	loopback = "127.0.0.0/8,::1/128"
)

// ports are the variables of the listening addresses, with their defaults.
var ports = []variable{
	{"TRIBUTARY_API_LISTEN", "127.0.0.1:8080"},
	{"TRIBUTARY_COLLECTOR_LISTEN", "127.0.0.1:8081"},
	{"TRIBUTARY_GRPC_LISTEN", "127.0.0.1:9090"},
	{"TRIBUTARY_METRICS_LISTEN", "127.0.0.1:9100"},
	{shopListenName, "127.0.0.1:8082"},
}

// shopListenName is the variable of the demo shop's address. Only dev has a shop.
const shopListenName = "TRIBUTARY_SHOP_LISTEN"

// environment returns the settings of this run: those of the process' environment, and
// for missing ones the secrets and the defaults of development.
//
// A database address that equals the one in last belongs to the private servers of the
// previous run and is ignored, so a shell that sourced .dev/env can start the next run.
func environment(lines []string, secrets, last map[string]string) map[string]string {
	values := map[string]string{}
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, "="); ok && strings.HasPrefix(name, "TRIBUTARY_") {
			values[name] = value
		}
	}
	for _, name := range []string{databaseURLName, redisURLName} {
		if values[name] == last[name] {
			delete(values, name)
		}
	}
	// A development run does not use TLS.
	for name := range values {
		if strings.HasPrefix(name, "TRIBUTARY_TLS_") || strings.HasPrefix(name, "TRIBUTARY_GRPC_TLS_") {
			delete(values, name)
		}
	}
	missing := func(name string) bool { return values[name] == "" && values[name+"_FILE"] == "" }
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
	if allLoopback(values) {
		if missing(allowHTTPName) {
			values[allowHTTPName] = "true"
		}
		// For dev listen. If other machines can reach the API, webhooks must not be able
		// to call this machine.
		if missing(webhookAllowName) {
			values[webhookAllowName] = loopback
		}
	}
	// No load balancer has to notice that the collector stops.
	if missing(shutdownDelayName) {
		values[shutdownDelayName] = "0s"
	}
	return values
}

// allLoopback reports whether all ports listen on loopback only.
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

// private is the placeholder for the address of a server that this run starts.
const private = "redis://private"

// configure reads the settings of core and collector from environment.
func configure(environment map[string]string) (settings.Core, collector.Config, error) {
	values := maps.Clone(environment)
	for _, name := range []string{databaseURLName, redisURLName} {
		if values[name] == "" && values[name+"_FILE"] == "" {
			values[name] = private
		}
	}
	var lines []string
	for name, value := range values {
		lines = append(lines, name+"="+value)
	}
	core, err := settings.Parse[settings.Core](lines)
	clicks, edgeErr := settings.Parse[settings.Collector](lines)
	if err == nil {
		// Both read the same variables, so one list of faults is enough.
		err = edgeErr
	}
	if err == nil && !core.AllowHTTP {
		err = fmt.Errorf("%s: make run serves plain HTTP. This is allowed if every port is on loopback; "+
			"otherwise set %[1]s=true", allowHTTPName)
	}
	return core, edge.Config(clicks), err
}

// listeners are the open ports of a run, in the order of ports.
type listeners [5]net.Listener

// listen opens all ports before anything is started, so that a port in use is reported
// immediately.
func listen(environment map[string]string) (listeners, error) {
	var open listeners
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
		return listeners{}, errors.Join(faults...)
	}
	return open, nil
}

// close closes the listeners that no server has closed.
func (l listeners) close() {
	for _, one := range l {
		if one != nil {
			_ = one.Close() // an error means that a server has closed it
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
