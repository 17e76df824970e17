package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

const (
	steadyRound       = 2 * time.Second
	steadyRate        = 5000
	steadyConnections = 64
)

// steady sends HTTP requests at a constant rate. It distributes them evenly among several
// persistent connections. Each request is due at a fixed moment, even if earlier
// responses have not arrived, and its latency is measured from that moment. So if a
// server stops for a while, the latencies of all requests that were due in this time
// include the stop.
type steady struct {
	address     string
	connections int
	// rate is the number of requests per second of all connections together.
	rate int
	// measured is the duration of the measurement after the warm-up.
	measured time.Duration
	// request appends the next request of a connection to dst.
	request func(dst []byte, connection int) []byte
	// status is the expected status of all responses. Any other status ends the run.
	status int
	// onResponse is called with the body and the time of each measured response. It is
	// called concurrently. It may be nil.
	onResponse func(body []byte, at time.Time)
}

func (s steady) run(ctx context.Context) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+s.measured+responseTimeout)
	defer cancel()
	conns := make([]net.Conn, s.connections)
	for i := range conns {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", s.address)
		if err != nil {
			return sample{}, err
		}
		defer func() { _ = conn.Close() }()
		// Closing the connection ends reads that wait for a missing response.
		defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
		conns[i] = conn
	}
	every := time.Second / time.Duration(s.rate)
	// Each connection sends the same number of requests.
	turns := int((warmUp+s.measured)/every) / s.connections
	began := time.Now()
	due := func(n int) time.Time { return began.Add(time.Duration(n) * every) }

	var group sync.WaitGroup
	took := make([][]time.Duration, s.connections)
	faults := make([]error, s.connections+1)
	for i, conn := range conns {
		group.Go(func() {
			responses := bufio.NewReaderSize(conn, 4096)
			for turn := range turns {
				moment := due(turn*s.connections + i)
				at, err := s.readResponse(responses, moment.Sub(began) >= warmUp)
				if err != nil {
					faults[i] = contextError(ctx, fmt.Errorf("%s: %w", s.address, err))
					cancel()
					return
				}
				if moment.Sub(began) >= warmUp {
					took[i] = append(took[i], at.Sub(moment))
				}
			}
		})
	}
	group.Go(func() {
		if err := s.send(ctx, conns, turns*s.connections, due); err != nil {
			faults[s.connections] = contextError(ctx, err)
			cancel()
		}
	})
	group.Wait()
	for _, fault := range faults {
		// The first error is the cause. It has cancelled the other connections.
		if fault != nil && !errors.Is(fault, context.Canceled) {
			return sample{}, fault
		}
	}
	if err := ctx.Err(); err != nil {
		return sample{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return sample{rate: float64(s.rate), p50: quantile(all, 0.5), p99: quantile(all, 0.99)}, nil
}

// readResponse reads a response and returns the time at which it was complete.
func (s steady) readResponse(reader *bufio.Reader, measured bool) (time.Time, error) {
	length, err := readHead(reader, s.status)
	if err != nil {
		return time.Time{}, err
	}
	body, err := reader.Peek(length)
	if err != nil {
		return time.Time{}, err
	}
	at := time.Now()
	if measured && s.onResponse != nil {
		s.onResponse(body, at)
	}
	_, err = reader.Discard(length)
	return at, err
}

// send sends each request at the moment when it is due. It locks its thread and sleeps
// with nanosleep, because the timers of an idle Go runtime are up to a millisecond late.
func (s steady) send(ctx context.Context, conns []net.Conn, requests int, due func(n int) time.Time) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var request []byte
	for n := range requests {
		for wait := time.Until(due(n)); wait > 0; wait = time.Until(due(n)) {
			remaining := syscall.NsecToTimespec(int64(wait))
			// A signal may end the sleep early.
			_ = syscall.Nanosleep(&remaining, nil)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		i := n % len(conns)
		request = s.request(request[:0], i)
		if _, err := conns[i].Write(request); err != nil {
			return err
		}
	}
	return nil
}

// measureSteady measures row C6 of the table.
func (b *bench) measureSteady(ctx context.Context, client redis.UniversalClient, keys []string, bare, edge *process) error {
	requests := make([][]byte, steadyConnections)
	for i := range requests {
		requests[i] = appendPost(nil, clicksPath, keys[i], clickBody)
	}
	sendTo := func(p *process, fsync string) side {
		return func(ctx context.Context) (sample, error) {
			if fsync != "" {
				if err := client.ConfigSet(ctx, "appendfsync", fsync).Err(); err != nil {
					return sample{}, err
				}
			}
			got, err := steady{
				address: p.address, connections: steadyConnections, rate: steadyRate, measured: steadyRound, status: http.StatusCreated,
				request: func(dst []byte, connection int) []byte { return append(dst, requests[connection]...) },
			}.run(ctx)
			if err != nil {
				return sample{}, p.fail(err)
			}
			return got, client.Unlink(ctx, clickstream.Key(0)).Err()
		}
	}
	what := fmt.Sprintf("collector at a constant %d/s", steadyRate)
	got, err := b.takeTurns(ctx, what, b.yardstick(sendTo(bare, "")), sendTo(edge, everySecond), sendTo(edge, always))
	if err != nil {
		return err
	}
	const yardstickName = "bare net/http"
	b.compare("C6", what+", p99, everysec", yardstickName, "≤ 1.25", got[1], got[0], p99, millis)
	b.compare("", "  p50", yardstickName, "", got[1], got[0], p50, millis)
	b.compare("", what+", p99, always", yardstickName, "", got[2], got[0], p99, millis)
	b.compare("", "  p50", yardstickName, "", got[2], got[0], p50, millis)
	return nil
}
