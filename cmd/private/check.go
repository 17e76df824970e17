package private

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// checkTimeout is shorter than the default timeout of container health checks, which is 30
// seconds in Docker and 1 second in Kubernetes.
const checkTimeout = 900 * time.Millisecond

// ErrCheckUsage means that the arguments of the command healthcheck are wrong.
var ErrCheckUsage = errors.New("usage: healthcheck [--serving|--ready]")

// Main runs a program until it ends, or until it gets SIGINT or SIGTERM. After an error it
// exits with 1, or with 2 if the error is usage.
func Main(name string, usage error, run func(ctx context.Context, args []string, out io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		if errors.Is(err, usage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

// Check is the command healthcheck of each program. It requests /healthz, or with the
// argument --serving /servingz, or with --ready /readyz, from the private port of the
// process that listens on the given address. It returns nil if the status of the response
// is 200. Images without a shell use the command as their health check.
func Check(ctx context.Context, listen string, args []string) error {
	path := "/healthz"
	switch {
	case len(args) == 1 && args[0] == "--serving":
		path = "/servingz"
	case len(args) == 1 && args[0] == "--ready":
		path = "/readyz"
	case len(args) != 0:
		return ErrCheckUsage
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+reachable(listen)+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode == http.StatusOK {
		return nil
	}
	const longest = 1000
	text, err := io.ReadAll(io.LimitReader(response.Body, longest))
	if err != nil {
		return err
	}
	return fmt.Errorf("%s: %s: %s", path, response.Status, strings.TrimSpace(string(text)))
}

// reachable returns an address at which a process that listens on the given address can be
// reached from the same machine. If the process listens on all addresses, this is a
// loopback address.
func reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	switch ip, err := netip.ParseAddr(host); {
	case host == "", err == nil && ip == netip.IPv4Unspecified():
		host = "127.0.0.1"
	case err == nil && ip == netip.IPv6Unspecified():
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}
