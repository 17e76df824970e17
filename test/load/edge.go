package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"github.com/tributary-hq/tributary/tools/servers"
)

const edgeReadyPath = "/v1/health/ready"

// startCollector starts a collector that uses the given logical database of Redis. It
// returns when the collector is ready.
func (b *bench) startCollector(ctx context.Context, database int) (*process, error) {
	p, err := b.launchCollector(ctx, database)
	return awaitEdge(ctx, p, err)
}

// launchCollector starts a collector without waiting for it.
func (b *bench) launchCollector(ctx context.Context, database int) (*process, error) {
	redisURL, err := b.redisURL(database)
	if err != nil {
		return nil, err
	}
	return b.launchEdge(ctx, "collector", "collector", redisURL)
}

// startNaive starts test/load/naive, which uses the collector's Redis. options are
// appended to the URL of its Redis clients.
func (b *bench) startNaive(ctx context.Context, name, options string) (*process, error) {
	redisURL, err := b.redisURL(collectorRedis)
	if err != nil {
		return nil, err
	}
	// cmd/collector sets these values in its code.
	p, err := b.launchEdge(ctx, name, "naive", redisURL+options, "GOGC=800", "GOMEMLIMIT=256MiB")
	return awaitEdge(ctx, p, err)
}

// launchEdge starts a binary with the collector's settings and with extra settings.
func (b *bench) launchEdge(ctx context.Context, name, binary, redisURL string, extra ...string) (*process, error) {
	addresses, err := servers.FreeAddresses(2)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, name, addresses[0], append([]string{
		"TRIBUTARY_REDIS_URL=" + redisURL,
		"TRIBUTARY_COLLECTOR_LISTEN=" + addresses[0],
		"TRIBUTARY_METRICS_LISTEN=" + addresses[1],
		"TRIBUTARY_ALLOW_HTTP=true",
		"TRIBUTARY_HASH_KEY=" + hashKey,
		"TRIBUTARY_LIMIT_TRACKING=" + strconv.Itoa(noLimit), "TRIBUTARY_LIMIT_TRACKING_ADDRESS=" + strconv.Itoa(noLimit),
		// There is no load balancer that must detect the shutdown.
		"TRIBUTARY_SHUTDOWN_DELAY=0s",
	}, extra...), b.file(binary))
}

// awaitEdge takes the results of launchEdge. If launchErr is not nil, it returns this
// error. Otherwise it waits until the process is ready.
func awaitEdge(ctx context.Context, p *process, launchErr error) (*process, error) {
	if launchErr != nil {
		return nil, launchErr
	}
	if err := p.ready(ctx, edgeReadyPath); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// sendClick registers a click and returns the response.
func sendClick(ctx context.Context, address, key string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+clicksPath, bytes.NewReader([]byte(clickBody)))
	if err != nil {
		return "", err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusCreated {
		err = fmt.Errorf("a click got status %d: %s", response.StatusCode, text)
	}
	return string(text), err
}
