package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// warmUp is the time before the measurement begins, for connections, caches and
	// prepared statements.
	warmUp = 300 * time.Millisecond
	// responseTimeout is the maximum time from the end of the measurement to the last
	// response.
	responseTimeout = 10 * time.Second
)

// traffic sends HTTP requests over persistent connections. Each connection sends the next
// request as soon as a response arrives. To use little of the CPU time that it shares
// with the servers, traffic implements only the part of HTTP/1.1 that the servers of this
// project use.
type traffic struct {
	address     string
	connections int
	// measured is the duration of the measurement after the warm-up.
	measured time.Duration
	// processes selects the processes whose CPU time is measured.
	processes measuredProcesses
	// request appends the next request of a connection to dst.
	request func(dst []byte, connection int) []byte
	// status is the expected status of all responses. Any other status ends the run.
	status int
}

// These constants are the phases of a round. All connections read the current phase.
const (
	warming int32 = iota
	measuring
	over
)

func (t traffic) run(ctx context.Context) (sample, error) {
	got, err := measureWorkers(ctx, t.connections, t.measured, t.processes, t.connection)
	if err == nil && got.rate == 0 {
		err = fmt.Errorf("%s returned no response within %s", t.address, t.measured)
	}
	return got, err
}

// worker is a function that runs concurrently with other workers until the round is over.
// It returns the durations of the operations that ended during the measurement.
type worker func(ctx context.Context, n int, phase *atomic.Int32) ([]time.Duration, error)

// measuredProcesses selects the processes whose CPU time is measured: a server process
// and its Redis. If redis is nil, only the server process is measured.
type measuredProcesses struct {
	pid   int
	redis redis.UniversalClient
}

// redisCPUTime returns the CPU time of the Redis.
func (p measuredProcesses) redisCPUTime(ctx context.Context) (time.Duration, error) {
	if p.redis == nil {
		return 0, nil
	}
	return redisTime(ctx, p.redis)
}

// measureWorkers runs workers. It measures the operations of the workers, and the CPU
// time that the given processes use in the same time. The first error ends the run.
func measureWorkers(ctx context.Context, workers int, measured time.Duration, processes measuredProcesses, work worker) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+measured+responseTimeout)
	defer cancel()
	var phase atomic.Int32
	var group sync.WaitGroup
	took := make([][]time.Duration, workers)
	faults := make([]error, workers)
	for i := range workers {
		group.Go(func() {
			if took[i], faults[i] = work(ctx, i, &phase); faults[i] != nil {
				cancel()
			}
		})
	}
	err := sleep(ctx, warmUp)
	// A busy Redis responds late. Therefore its CPU time is read before the measurement
	// begins and after it has ended.
	redisBefore, redisErr := processes.redisCPUTime(ctx)
	server, cpuErr := cpuTime(processes.pid)
	phase.Store(measuring)
	began := time.Now()
	err = errors.Join(err, redisErr, cpuErr, sleep(ctx, measured))
	phase.Store(over)
	length := time.Since(began)
	serverAfter, cpuErr := cpuTime(processes.pid)
	redisAfter, redisErr := processes.redisCPUTime(ctx)
	err = errors.Join(err, redisErr, cpuErr)
	group.Wait()
	for _, fault := range faults {
		// The first error is the cause. The other errors are consequences of it.
		if fault != nil && !errors.Is(fault, context.Canceled) {
			return sample{}, fault
		}
	}
	if err != nil {
		return sample{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	requests := time.Duration(max(1, len(all)))
	return sample{
		rate:  float64(len(all)) / length.Seconds(),
		cpu:   (serverAfter - server) / requests,
		redis: (redisAfter - redisBefore) / requests,
		p50:   quantile(all, 0.5),
		p99:   quantile(all, 0.99),
	}, nil
}

// connection is a worker that sends requests over one connection.
func (t traffic) connection(ctx context.Context, n int, phase *atomic.Int32) ([]time.Duration, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// Closing the connection ends a read that waits for a missing response.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	responses := bufio.NewReaderSize(conn, 4096)
	var request []byte
	var took []time.Duration
	for {
		now := phase.Load()
		if now == over {
			return took, nil
		}
		request = t.request(request[:0], n)
		sent := time.Now()
		if _, err := conn.Write(request); err != nil {
			return nil, contextError(ctx, err)
		}
		if err := skipResponse(responses, t.status); err != nil {
			return nil, contextError(ctx, fmt.Errorf("%s: %w", t.address, err))
		}
		if now == measuring && phase.Load() == measuring {
			took = append(took, time.Since(sent))
		}
	}
}

// contextError returns the cause of the end of ctx if ctx has ended, because then err is
// only a consequence. Otherwise it returns err.
func contextError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// skipResponse reads one response and ignores the body. It returns an error if the status
// of the response is not expectedStatus.
func skipResponse(reader *bufio.Reader, expectedStatus int) error {
	length, err := readHead(reader, expectedStatus)
	if err != nil {
		return err
	}
	_, err = reader.Discard(length)
	return err
}

// readHead reads the head of a response and returns the length of the body. It returns an
// error if the status of the response is not expectedStatus.
func readHead(reader *bufio.Reader, expectedStatus int) (int, error) {
	line, err := reader.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	// Example: HTTP/1.1 201 Created
	if len(line) < len("HTTP/1.1 201") {
		return 0, fmt.Errorf("unexpected status line %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("unexpected status line %q", line)
	}
	length := -1
	for {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return 0, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		if len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")) {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, err
			}
		}
	}
	if length < 0 {
		return 0, errors.New("the response has no Content-Length")
	}
	if status != expectedStatus {
		body := make([]byte, length)
		_, _ = io.ReadFull(reader, body)
		return 0, fmt.Errorf("status %d instead of %d: %s", status, expectedStatus, body)
	}
	return length, nil
}

// appendPost appends a POST request with a JSON body to dst.
func appendPost(dst []byte, path, credential, body string) []byte {
	dst = append(dst, "POST "...)
	dst = append(dst, path...)
	dst = append(dst, " HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer "...)
	dst = append(dst, credential...)
	dst = append(dst, "\r\nUser-Agent: "+browser+"\r\nContent-Type: application/json\r\nContent-Length: "...)
	dst = strconv.AppendInt(dst, int64(len(body)), 10)
	dst = append(dst, "\r\n\r\n"...)
	return append(dst, body...)
}

const browser = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
