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
	// warmUp goes before what is measured: connections, caches, prepared
	// statements.
	warmUp = 300 * time.Millisecond
	// patience is what the last answers may take after the end.
	patience = 10 * time.Second
)

// traffic is a load of HTTP requests over kept connections, one at a time on
// each, as fast as answers come. It speaks just enough HTTP/1.1 for our own
// servers, because its own cost is taken from theirs.
type traffic struct {
	address     string
	connections int
	// measured is how long it is measured, after the warm-up.
	measured time.Duration
	// spent says whose CPU time is accounted.
	spent accounts
	// request appends the next request of a connection to dst.
	request func(dst []byte, connection int) []byte
	// status is the answer that counts; any other ends the run.
	status int
}

// The phases of a round, which all connections look at.
const (
	warming int32 = iota
	measuring
	over
)

func (t traffic) run(ctx context.Context) (sample, error) {
	got, err := sampleOf(ctx, t.connections, t.measured, t.spent, t.connection)
	if err == nil && got.rate == 0 {
		err = fmt.Errorf("%s answered nothing within %s", t.address, t.measured)
	}
	return got, err
}

// worker is one of those that work at the same time: until the round is over. It
// returns how long each piece took of what was done while it was measured.
type worker func(ctx context.Context, n int, phase *atomic.Int32) ([]time.Duration, error)

// accounts are those who serve a load: a process, and, when it is not nil, the
// Redis behind it.
type accounts struct {
	pid   int
	redis redis.UniversalClient
}

// behind is the CPU time that the Redis has had.
func (a accounts) behind(ctx context.Context) (time.Duration, error) {
	if a.redis == nil {
		return 0, nil
	}
	return redisTime(ctx, a.redis)
}

// sampleOf measures so many workers, and the CPU time of those that serve them.
// The first error ends the run.
func sampleOf(ctx context.Context, workers int, measured time.Duration, spent accounts, work worker) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, warmUp+measured+patience)
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
	// Redis under load answers late: it is asked first here, and last at the end.
	behind, behindErr := spent.behind(ctx)
	server, cpuErr := cpuTime(spent.pid)
	phase.Store(measuring)
	began := time.Now()
	err = errors.Join(err, behindErr, cpuErr, sleep(ctx, measured))
	phase.Store(over)
	length := time.Since(began)
	serverAfter, cpuErr := cpuTime(spent.pid)
	behindAfter, behindErr := spent.behind(ctx)
	err = errors.Join(err, behindErr, cpuErr)
	group.Wait()
	for _, fault := range faults {
		// The first is the cause; the others were cancelled by it.
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
		redis: (behindAfter - behind) / requests,
		p50:   quantile(all, 0.5),
		p99:   quantile(all, 0.99),
	}, nil
}

// connection is a worker that sends requests.
func (t traffic) connection(ctx context.Context, n int, phase *atomic.Int32) ([]time.Duration, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", t.address)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	// Ends a read that waits for an answer that does not come.
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	answers := bufio.NewReaderSize(conn, 4096)
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
			return nil, ended(ctx, err)
		}
		if err := skipAnswer(answers, t.status); err != nil {
			return nil, ended(ctx, fmt.Errorf("%s: %w", t.address, err))
		}
		if now == measuring && phase.Load() == measuring {
			took = append(took, time.Since(sent))
		}
	}
}

// ended prefers the reason for which the connection was closed.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

// skipAnswer reads one answer; one of another status than wanted is an error.
func skipAnswer(from *bufio.Reader, wanted int) error {
	length, err := readHead(from, wanted)
	if err != nil {
		return err
	}
	_, err = from.Discard(length)
	return err
}

// readHead reads an answer up to its body, and returns the length of that. An
// answer of another status than wanted is an error.
func readHead(from *bufio.Reader, wanted int) (int, error) {
	line, err := from.ReadSlice('\n')
	if err != nil {
		return 0, err
	}
	// HTTP/1.1 201 Created
	if len(line) < len("HTTP/1.1 201") {
		return 0, fmt.Errorf("the answer begins with %q", line)
	}
	status, err := strconv.Atoi(string(line[9:12]))
	if err != nil {
		return 0, fmt.Errorf("the answer begins with %q", line)
	}
	length := -1
	for {
		line, err := from.ReadSlice('\n')
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
		return 0, errors.New("the answer does not say its length")
	}
	if status != wanted {
		body := make([]byte, length)
		_, _ = io.ReadFull(from, body)
		return 0, fmt.Errorf("answered %d instead of %d: %s", status, wanted, body)
	}
	return length, nil
}

// appendPost appends a request with a JSON body.
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
