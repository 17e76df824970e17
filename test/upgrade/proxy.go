package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

// proxy is HAProxy. It distributes requests to the instances of each program, and checks
// the metrics port of each instance.
type proxy struct {
	groups     []proxied
	statistics string // the address of the statistics page
	running    *process
}

// proxied is the instances of one program behind one address of the proxy.
type proxied struct {
	name, mode, address string
	servers             []server
}

// server contains the addresses of an instance.
type server struct{ address, metrics string }

// configuration returns the configuration file. HAProxy connects again, to another server,
// only if a connection fails: a request that was sent is never repeated. It uses each
// connection for one request, because a server that stops closes its idle connections.
func (p *proxy) configuration() string {
	var b strings.Builder
	b.WriteString(`global
    maxconn 2000
defaults
    timeout connect 2s
    timeout client 60s
    timeout server 60s
    retries 3
    option redispatch 1
`)
	for _, group := range p.groups {
		fmt.Fprintf(&b, "listen %s\n    bind %s\n    mode %s\n    option httpchk GET /servingz\n", group.name, group.address, group.mode)
		if group.mode == "http" {
			b.WriteString("    option http-server-close\n")
		}
		for n, s := range group.servers {
			_, port, _ := strings.Cut(s.metrics, ":")
			fmt.Fprintf(&b, "    server %s%d %s check port %s inter 100ms fall 1 rise 1\n", group.name, n+1, s.address, port)
		}
	}
	fmt.Fprintf(&b, "listen statistics\n    bind %s\n    mode http\n    stats enable\n    stats uri /\n", p.statistics)
	return b.String()
}

// startProxy starts HAProxy. If it is missing, startProxy installs Debian's package.
func (s *system) startProxy(ctx context.Context) error {
	if _, err := exec.LookPath("haproxy"); err != nil {
		if err := servers.Install(ctx, "haproxy"); err != nil {
			return fmt.Errorf("haproxy: %w", err)
		}
	}
	path := filepath.Join(s.dir, "haproxy.cfg")
	if err := os.WriteFile(path, []byte(s.proxy.configuration()), 0o600); err != nil {
		return err
	}
	var err error
	s.proxy.running, err = s.launch(ctx, "haproxy", []string{"haproxy", "-db", "-f", path}, nil)
	return err
}

// awaitProxy waits until the proxy sends requests to all instances.
func (s *system) awaitProxy(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		states, err := s.proxy.states(ctx)
		if err == nil && len(states) == len(s.instances) && strings.Count(strings.Join(states, ","), "UP") == len(states) {
			return nil
		}
		if sleepErr := sleep(ctx, 50*time.Millisecond); sleepErr != nil {
			return errors.Join(fmt.Errorf("the proxy does not use all instances within %s: %v", startTimeout, states), err, s.tail("haproxy"))
		}
	}
}

// states returns the states of all servers from the statistics of HAProxy.
func (p *proxy) states(ctx context.Context) ([]string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.statistics+"/;csv", http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	const nameColumn, stateColumn = 1, 17
	var states []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Split(line, ",")
		if len(fields) > stateColumn && !strings.HasPrefix(line, "#") && fields[nameColumn] != "FRONTEND" && fields[nameColumn] != "BACKEND" {
			states = append(states, fields[stateColumn])
		}
	}
	return states, nil
}
