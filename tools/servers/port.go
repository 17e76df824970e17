package servers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Free ports are chosen below the default range for outgoing connections. Otherwise an
// outgoing connection could take the port of a server that has not started or is
// restarting.
const (
	lowestPort = 11_000
	portCount  = 9_000
	// portReleaseTimeout is how long choosePort waits until the requested port is free.
	portReleaseTimeout = 500 * time.Millisecond
)

var errPortTaken = errors.New("taken by another program: free it or choose another port")

// PortTaken reports whether a server did not start because another program uses its
// port.
func PortTaken(err error) bool {
	return err != nil && (errors.Is(err, errPortTaken) || strings.Contains(err.Error(), "Address already in use"))
}

// Listen listens on a free port of 127.0.0.1.
func Listen() (net.Listener, error) {
	var lastErr error
	for range 100 {
		listener, err := listen(lowestPort + rand.IntN(portCount)) // #nosec G404 -- not for security
		if err == nil {
			return listener, nil
		}
		lastErr = err
	}
	return nil, fmt.Errorf("no free port: %w", lastErr)
}

// FreeAddresses returns n addresses of 127.0.0.1 with different free ports. The ports
// are not reserved, so another program may take one before the caller listens on it. A
// process that is being started by this one may have a copy of the listener for a moment,
// so listening on a port can fail even if no program uses it.
func FreeAddresses(n int) (free []string, err error) {
	var listeners []net.Listener
	defer func() {
		for _, listener := range listeners {
			err = errors.Join(err, listener.Close())
		}
	}()
	for range n {
		listener, err := Listen()
		if err != nil {
			return nil, err
		}
		listeners = append(listeners, listener)
		free = append(free, listener.Addr().String())
	}
	return free, nil
}

// choosePort returns the port on which a server listens. If requested is 0, choosePort
// chooses a free port. Otherwise it returns the requested port, or an error if another
// program uses that port.
func choosePort(name string, requested int) (int, error) {
	if requested == 0 {
		free, err := FreeAddresses(1)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		_, port, _ := strings.Cut(free[0], ":")
		return strconv.Atoi(port)
	}
	listener, err := listen(requested)
	// The process that uses the port may be about to end.
	for until := time.Now().Add(portReleaseTimeout); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until); {
		time.Sleep(pollEvery)
		listener, err = listen(requested)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return 0, fmt.Errorf("%s: port %d of 127.0.0.1 is %w", name, requested, errPortTaken)
	case err != nil:
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return requested, listener.Close()
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // returns at once
}
