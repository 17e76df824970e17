package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	stripeURLName = "TRIBUTARY_STRIPE_API_URL"
	stripeLogName = "stripe"
)

// stripeProcess is the stand-in for Stripe: a process that simulates Stripe's API. It keeps its objects in memory.
// The methods of stripeProcess do nothing if the receiver is nil.
type stripeProcess struct {
	url      string
	listener *net.TCPListener
	process  *exec.Cmd
	log      *os.File
	parent   io.Closer // the process ends when this is closed
	ended    chan struct{}
	err      error // set before ended is closed
}

// listenForStripe opens a port on loopback for the stand-in, if possible the port of lastURL. It sets the setting
// stripeURLName in values to the address of this port. If the setting already has a value, the developer uses another
// server, and listenForStripe returns nil.
func listenForStripe(values map[string]string, lastURL string) (*stripeProcess, error) {
	if !isMissing(values, stripeURLName) {
		return nil, nil //nolint:nilnil // the methods accept nil
	}
	listener, err := listenAgain(lastURL)
	if errors.Is(err, syscall.EADDRINUSE) {
		listener, err = servers.Listen()
	}
	if err != nil {
		return nil, fmt.Errorf("stand-in for Stripe: %w", err)
	}
	p := &stripeProcess{url: "http://" + address(listener), listener: listener.(*net.TCPListener), ended: make(chan struct{})}
	values[stripeURLName] = p.url
	return p, nil
}

// listenAgain listens on the port of lastURL, or on a free port if lastURL has none.
func listenAgain(lastURL string) (net.Listener, error) {
	last, err := url.Parse(lastURL)
	if err != nil || last.Port() == "" {
		return servers.Listen()
	}
	return net.Listen("tcp", net.JoinHostPort("127.0.0.1", last.Port())) //nolint:noctx // binds and returns at once
}

// start starts the process. It does not wait until the process accepts requests, but
// connections to its port are already accepted.
func (p *stripeProcess) start(f *folder) (err error) {
	if p == nil {
		return nil
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	file, err := p.listener.File()
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	if p.log, err = f.newLog(stripeLogName); err != nil {
		return err
	}
	process := exec.Command(program, stripeServerCommand) //nolint:noctx // stop ends it
	process.ExtraFiles = []*os.File{file}
	process.Stderr = p.log // the standard output is discarded
	// Ctrl-C in the terminal does not reach the process, so that the core can stop first.
	process.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// If this process is killed, the kernel closes the pipe, and the stand-in ends.
	if p.parent, err = process.StdinPipe(); err != nil {
		return errors.Join(err, p.log.Close())
	}
	if err := process.Start(); err != nil {
		return errors.Join(fmt.Errorf("start the stand-in for Stripe: %w", err), p.log.Close())
	}
	p.process = process
	go func() {
		p.err = fmt.Errorf("the stand-in for Stripe ended by itself: %w; see %s", exitError(p.process.Wait()), p.log.Name())
		close(p.ended)
	}()
	return p.listener.Close() // the process has a copy
}

// exitError returns err, or an error that says that the process exited without an error.
func exitError(err error) error {
	if err == nil {
		return errors.New("exit status 0")
	}
	return err
}

// address returns the URL of the stand-in. The URL is empty if the receiver is nil.
func (p *stripeProcess) address() string {
	if p == nil {
		return ""
	}
	return p.url
}

// watch waits until ctx ends or the process exits. If the process exits, watch returns an
// error.
func (p *stripeProcess) watch(ctx context.Context) error {
	if p == nil {
		return nil
	}
	select {
	case <-p.ended:
		return p.err
	case <-ctx.Done():
		return nil
	}
}

// stop ends the process and waits for its end. The process has no data on disk, so it is
// killed.
func (p *stripeProcess) stop() error {
	switch {
	case p == nil:
		return nil
	case p.process == nil:
		_ = p.listener.Close() // start has not closed it
		return nil
	}
	_ = p.process.Process.Kill() // fails if the process has ended
	<-p.ended
	_ = p.parent.Close() // fails if Wait has closed it
	return p.log.Close()
}

// waitForStripe waits until the stand-in at the given address responds. It returns an error if ctx ends first. The
// stand-in needs some seconds to read the description of Stripe's API.
func waitForStripe(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/v1/account", nil)
	if err != nil {
		return err
	}
	for {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			return response.Body.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the stand-in for Stripe is not ready: %w", err)
		case <-time.After(pollEvery):
		}
	}
}
