// Package clock gives a process the time of the server that all processes of its kind share:
// Postgres for the core and the landing service, Redis for the collector, and the core for the
// gateway.
//
// Processes compare times that other processes have stored: ends of leases, due times of
// webhooks, times of clicks. A wrong clock of one machine would therefore stop the work of the
// others. So Clock.Now returns the last time that the server has reported, plus the time since
// then on the monotonic clock, which cannot be set. A step of the machine's clock changes
// nothing.
//
// The machine's clock is still used for logs and for the validity of certificates. So a Clock
// reports by how much the machine's clock differs from the server's clock.
package clock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// interval is the time between two comparisons.
	interval = time.Minute
	// firstInterval is the time between two comparisons until the first success.
	firstInterval = 5 * time.Second
	// timeout is the time limit of a comparison. A slower response is not exact enough.
	timeout = time.Second
	// warnOffset is the difference above which each comparison logs a warning.
	warnOffset = 2 * time.Second
	// maxOffset is the largest difference with which a process starts.
	maxOffset = 30 * time.Second
)

// Server is the server whose time is used.
type Server struct {
	// Name is the server's name in messages, such as Postgres.
	Name string
	// Time returns the server's time.
	Time func(context.Context) (time.Time, error)
}

// Clock is the clock of a process. Create it with New or Manual. It is safe for concurrent use.
type Clock struct {
	machine func() time.Time // the machine's clock
	manual  func() time.Time // replaces Now if the clock is manual; otherwise nil
	started time.Time        // has a monotonic reading
	anchor  atomic.Pointer[anchor]
	offset  prometheus.Gauge
	server  Server
	log     *slog.Logger
}

// anchor is a time of the server and the monotonic time since the start of the process at
// which the server had it.
type anchor struct {
	server  time.Time
	elapsed time.Duration
}

func (a anchor) at(elapsed time.Duration) time.Time { return a.server.Add(elapsed - a.elapsed) }

// New returns a clock that has the machine's time until the first comparison. The parameter
// machine is time.Now, except in tests of wrong clocks.
func New(machine func() time.Time) *Clock {
	return &Clock{machine: machine, started: time.Now(), offset: prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "tributary_clock_offset_seconds",
		Help: "Time by which the clock of the process's machine is ahead of that of the server whose time it uses; " +
			"negative if it is behind, 0 until the first comparison.",
	})}
}

// Manual returns a clock whose Now calls the given function, for tests that move the time and for a
// service in the process of another service. The clock is not compared and exports no metric.
func Manual(now func() time.Time) *Clock {
	c := New(time.Now)
	c.manual = now
	return c
}

// Now returns the current time.
func (c *Clock) Now() time.Time {
	if c.manual != nil {
		return c.manual()
	}
	return c.ServerTime()
}

// ServerTime returns the server's time, or the machine's time before the first comparison, also if the clock is manual.
func (c *Clock) ServerTime() time.Time {
	if a := c.anchor.Load(); a != nil {
		return a.at(time.Since(c.started))
	}
	return c.machine()
}

// Machine returns the time of the machine's clock.
func (c *Clock) Machine() time.Time { return c.machine() }

// At converts a server's time to the time scale of Now. A manual clock is independent of all
// servers, so the result is then the current time.
func (c *Clock) At(server time.Time) time.Time {
	if c.manual != nil {
		return c.manual()
	}
	return server
}

// Compare registers the metric and compares the clocks for the first time. It returns an error
// if the machine's clock differs by more than 30 seconds. If the server does not respond,
// Compare logs a warning, and Run repeats the comparison.
func (c *Clock) Compare(ctx context.Context, server Server, log *slog.Logger, registry prometheus.Registerer) error {
	if c.manual != nil {
		return nil
	}
	c.server, c.log = server, log
	registry.MustRegister(c.offset)
	offset, err := c.measure(ctx)
	switch {
	case err != nil:
		c.log.LogAttrs(ctx, slog.LevelWarn, "the clock could not be compared", slog.String("server", server.Name), slog.Any("error", err))
	case offset.Abs() > maxOffset:
		return fmt.Errorf("%s (maximum: %s): synchronise the clocks (NTP) and start again", describe(offset, server.Name), maxOffset)
	}
	return nil
}

// Run compares the clocks once a minute until ctx ends. Until the first success it does so
// every five seconds.
func (c *Clock) Run(ctx context.Context) {
	if c.manual != nil {
		<-ctx.Done()
		return
	}
	for {
		wait := interval
		if c.anchor.Load() == nil {
			wait = firstInterval
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		// A server that does not respond is reported elsewhere.
		if _, err := c.measure(ctx); err != nil {
			c.log.LogAttrs(ctx, slog.LevelDebug, "the clock could not be compared", slog.String("server", c.server.Name), slog.Any("error", err))
		}
	}
}

// errSlow means that the response took too long to be exact.
var errSlow = errors.New("the response took too long")

// measure compares the clocks and returns the time by which the machine's clock is ahead. The
// server has read its clock at an unknown time between request and response. If the current anchor
// agrees with this interval, it stays, so that the time does not move back and forth by the
// duration of the requests. A new anchor has the machine's time if the machine's clock agrees with
// the interval, because that clock then has no measurable error. If not, it has the server's time.
func (c *Clock) measure(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	sent := time.Since(c.started)
	server, err := c.server.Time(ctx)
	received, machine := time.Since(c.started), c.machine()
	if err != nil {
		return 0, err
	}
	uncertainty := (received - sent) / 2
	if uncertainty > timeout/2 {
		return 0, errSlow
	}
	measured, next := anchor{server.UTC(), sent + uncertainty}, anchor{machine.UTC().Round(0), received}
	offset := next.server.Sub(measured.at(received))
	if offset.Abs() <= uncertainty {
		offset = 0
	} else {
		next = measured
	}
	if a := c.anchor.Load(); a == nil || a.at(measured.elapsed).Sub(measured.server).Abs() > uncertainty {
		c.anchor.Store(&next)
	}
	c.offset.Set(offset.Seconds())
	if offset.Abs() > warnOffset {
		c.log.LogAttrs(ctx, slog.LevelWarn, "the clock of this machine is wrong", slog.String("detail", describe(offset, c.server.Name)))
	}
	return offset, nil
}

// describe returns the start of a sentence about the offset.
func describe(offset time.Duration, server string) string {
	direction := "ahead of"
	if offset < 0 {
		direction = "behind"
	}
	return fmt.Sprintf("the clock of this machine is %s %s the clock of %s", offset.Abs().Round(10*time.Millisecond), direction, server)
}
