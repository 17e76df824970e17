package main

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// heldConnections each send heldClicks and stay open.
	heldConnections = 1000
	heldClicks      = 10
	// restFor is what a process gets before its memory is read.
	restFor = 500 * time.Millisecond
	// knockEvery is how often a process that starts is asked whether it is there.
	knockEvery = 500 * time.Microsecond
)

// weigh makes the rows of what a collector is without any load: its size on disk,
// the time to its first answer, and its memory, idle and with connections.
func (b *bench) weigh(ctx context.Context, keys []string, answer string) error {
	const yardstick = "bare net/http"
	for _, built := range []struct{ what, flags string }{
		{"collector, size on disk", ""},
		{"  without symbols (-s -w)", "-s -w"},
	} {
		ours, err := b.sizeOf(ctx, "cmd/collector", built.flags)
		if err != nil {
			return err
		}
		theirs, err := b.sizeOf(ctx, "test/load/bare", built.flags)
		if err != nil {
			return err
		}
		b.table = append(b.table, row{
			what: built.what, ours: megabytes(ours), yardstick: megabytes(theirs) + " " + yardstick, ratios: []float64{ours / theirs},
		})
	}
	edge := func(ctx context.Context) (*process, error) { return b.launchCollector(ctx, collectorRedis) }
	bare := func(ctx context.Context) (*process, error) { return b.launchBare(ctx, answer) }
	got, err := b.takeTurns(ctx, "what a collector weighs", carry(edge, edgeReadyPath, keys), b.yardstick(carry(bare, healthPath, keys)))
	if err != nil {
		return err
	}
	b.compare("", "collector, start to its first ready", yardstick, "", got[0], got[1], startTime, millis)
	b.compare("", "collector, memory (RSS) idle", yardstick, "", got[0], got[1], idleMemory, megabytes)
	b.compare("", fmt.Sprintf("  with %d connections, %d clicks each", heldConnections, heldClicks), yardstick, "", got[0], got[1], busyMemory, megabytes)
	return nil
}

// sizeOf builds one of our binaries with flags for the linker, and returns its
// length in bytes.
func (b *bench) sizeOf(ctx context.Context, of, flags string) (float64, error) {
	path := b.file("weighed")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+flags, "-o", path, module+"/"+of)
	cmd.Env, cmd.Stderr = append(os.Environ(), "CGO_ENABLED=0"), os.Stderr
	if err := cmd.Run(); err != nil {
		return 0, fmt.Errorf("build: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()), os.Remove(path)
}

// carry starts a process that is ready when path answers 200, and looks at its
// memory then and with its connections.
func carry(launch func(context.Context) (*process, error), path string, keys []string) side {
	return func(ctx context.Context) (sample, error) {
		began := time.Now()
		p, err := launch(ctx)
		if err != nil {
			return sample{}, err
		}
		defer p.stop()
		if err := p.knock(ctx, path, knockEvery); err != nil {
			return sample{}, err
		}
		got := sample{start: time.Since(began)}
		if err := sleep(ctx, restFor); err != nil {
			return sample{}, err
		}
		if got.idle, err = memoryOf(p.pid, heldMemory); err != nil {
			return sample{}, err
		}
		conns, err := hold(ctx, p.address, keys)
		defer func() {
			for _, conn := range conns {
				_ = conn.Close()
			}
		}()
		if err != nil {
			return sample{}, p.fail(err)
		}
		if err := sleep(ctx, restFor); err != nil {
			return sample{}, err
		}
		got.busy, err = memoryOf(p.pid, heldMemory)
		return got, err
	}
}

// hold opens connections that each send some clicks, at the same time, and leaves
// them open, also with an error. Go raises the limit of open files to the hard one
// in this process and in theirs.
func hold(ctx context.Context, address string, keys []string) ([]net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var conns []net.Conn
	for range heldConnections {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return conns, err
		}
		conns = append(conns, conn)
	}
	defer context.AfterFunc(ctx, func() {
		for _, conn := range conns {
			_ = conn.SetDeadline(time.Now())
		}
	})()
	faults := make([]error, len(conns))
	var group sync.WaitGroup
	for i, conn := range conns {
		group.Go(func() {
			answers := bufio.NewReader(conn)
			request := appendPost(nil, clicksPath, keys[i%len(keys)], clickBody)
			for range heldClicks {
				if _, err := conn.Write(request); err != nil {
					faults[i] = err
					return
				}
				if err := skipAnswer(answers, http.StatusCreated); err != nil {
					faults[i] = err
					return
				}
			}
		})
	}
	group.Wait()
	for _, fault := range faults {
		if fault != nil {
			return conns, fault
		}
	}
	return conns, nil
}
