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

// Ports are chosen below those that a kernel gives to outgoing connections unless told
// otherwise: one of these must not take a port whose server is not there yet, or away
// for a while.
const (
	lowestPort = 11_000
	ports      = 9_000
	// leaveTime is how long a wanted port is waited for.
	leaveTime = 500 * time.Millisecond
)

var errPortTaken = errors.New("taken by another program: free it or choose another port")

// PortTaken says whether a server did not start because another program has its port.
func PortTaken(err error) bool {
	return err != nil && (errors.Is(err, errPortTaken) || strings.Contains(err.Error(), "Address already in use"))
}

// FreeAddresses are so many different ports of 127.0.0.1 that nobody listens on, with
// their host. They are not held: whoever listens may still come second.
func FreeAddresses(n int) (free []string, err error) {
	var held []net.Listener
	defer func() {
		for _, listener := range held {
			err = errors.Join(err, listener.Close())
		}
	}()
	var last error
	for range 100 * n {
		listener, err := listen(lowestPort + rand.IntN(ports)) // #nosec G404 -- any will do
		if err != nil {
			last = err
			continue
		}
		held = append(held, listener)
		if free = append(free, listener.Addr().String()); len(free) == n {
			return free, nil
		}
	}
	return nil, fmt.Errorf("no free port: %w", last)
}

// choosePort returns the port to listen on: the wanted one when nothing listens
// there, or any free one when none is wanted.
func choosePort(name string, wanted int) (int, error) {
	if wanted == 0 {
		free, err := FreeAddresses(1)
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
		_, port, _ := strings.Cut(free[0], ":")
		return strconv.Atoi(port)
	}
	listener, err := listen(wanted)
	// Who had it may be about to end.
	for until := time.Now().Add(leaveTime); errors.Is(err, syscall.EADDRINUSE) && time.Now().Before(until); {
		time.Sleep(pollEvery)
		listener, err = listen(wanted)
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return 0, fmt.Errorf("%s: port %d of 127.0.0.1 is %w", name, wanted, errPortTaken)
	case err != nil:
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return wanted, listener.Close()
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // binds and returns at once
}
