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

// launchEdge starts a binary with the collector's settings plus more.
func (b *bench) launchEdge(ctx context.Context, name, binary, redisURL string, more ...string) (*process, error) {
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
		"TRIBUTARY_LIMIT_TRACKING=" + strconv.Itoa(noLimit),
		// There is no load balancer that must detect the shutdown.
		"TRIBUTARY_SHUTDOWN_DELAY=0s",
	}, more...), b.file(binary))
}

// awaitEdge waits until p is ready. err is the error of the launch of p; if it is set,
// awaitEdge returns it.
func awaitEdge(ctx context.Context, p *process, err error) (*process, error) {
	if err != nil {
		return nil, err
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
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = fmt.Errorf("a click got status %d: %s", answer.StatusCode, text)
	}
	return string(text), err
}
