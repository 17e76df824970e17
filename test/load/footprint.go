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
	// openConnectionCount is the number of connections that stay open. Each connection
	// sends clicksPerConnection clicks.
	openConnectionCount = 1000
	clicksPerConnection = 10
	// restTime is the pause before the memory of a process is read.
	restTime = 500 * time.Millisecond
	// readyPollInterval is the pause between two health checks of a starting process.
	readyPollInterval = 500 * time.Microsecond
)

// measureFootprint measures the rows of a collector without load: the size of the binary,
// the time to the first response, and the memory, both idle and with open connections.
func (b *bench) measureFootprint(ctx context.Context, keys []string, response string) error {
	const yardstickName = "bare net/http"
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
			what: built.what, ours: megabytes(ours), yardstick: megabytes(theirs) + " " + yardstickName, ratios: []float64{ours / theirs},
		})
	}
	edge := func(ctx context.Context) (*process, error) { return b.launchCollector(ctx, collectorRedis) }
	bare := func(ctx context.Context) (*process, error) { return b.launchBare(ctx, response) }
	got, err := b.takeTurns(ctx, "collector without load", startAndConnect(edge, edgeReadyPath, keys), b.yardstick(startAndConnect(bare, healthPath, keys)))
	if err != nil {
		return err
	}
	b.compare("", "collector, start to first ready response", yardstickName, "", got[0], got[1], startTime, millis)
	b.compare("", "collector, memory (RSS) idle", yardstickName, "", got[0], got[1], idleMemory, megabytes)
	b.compare("", fmt.Sprintf("  with %d connections, %d clicks each", openConnectionCount, clicksPerConnection), yardstickName, "",
		got[0], got[1], busyMemory, megabytes)
	return nil
}

// sizeOf builds a command with the given linker flags and returns the size of the binary
// in bytes.
func (b *bench) sizeOf(ctx context.Context, command, flags string) (float64, error) {
	path := b.file("sized")
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags="+flags, "-o", path, module+"/"+command)
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

// startAndConnect returns a side of a row: a function that measures one round for a
// process. It starts the process and measures the time to its first ready response. Then
// it measures the memory of the process, idle and with open connections. The process is
// ready when path returns 200.
func startAndConnect(launch func(context.Context) (*process, error), path string, keys []string) side {
	return func(ctx context.Context) (sample, error) {
		began := time.Now()
		p, err := launch(ctx)
		if err != nil {
			return sample{}, err
		}
		defer p.stop()
		if err := p.awaitReady(ctx, path, readyPollInterval); err != nil {
			return sample{}, err
		}
		got := sample{start: time.Since(began)}
		if err := sleep(ctx, restTime); err != nil {
			return sample{}, err
		}
		if got.idle, err = memoryOf(p.pid, currentMemory); err != nil {
			return sample{}, err
		}
		conns, err := openConnections(ctx, p.address, keys)
		defer func() {
			for _, conn := range conns {
				_ = conn.Close()
			}
		}()
		if err != nil {
			return sample{}, p.fail(err)
		}
		if err := sleep(ctx, restTime); err != nil {
			return sample{}, err
		}
		got.busy, err = memoryOf(p.pid, currentMemory)
		return got, err
	}
}

// openConnections opens connections and sends clicks over all of them concurrently. The
// connections stay open even if openConnections returns an error. The number of
// connections exceeds the usual soft limit of open files. But the Go runtime raises the
// soft limit to the hard limit, both in this process and in the server.
func openConnections(ctx context.Context, address string, keys []string) ([]net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	var conns []net.Conn
	for range openConnectionCount {
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
			responses := bufio.NewReader(conn)
			request := appendPost(nil, clicksPath, keys[i%len(keys)], clickBody)
			for range clicksPerConnection {
				if _, err := conn.Write(request); err != nil {
					faults[i] = err
					return
				}
				if err := skipResponse(responses, http.StatusCreated); err != nil {
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
