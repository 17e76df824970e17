package main

import (
	"context"
	"net/url"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

// distance delays each response of the Redis of another region, in milliseconds. It is the
// definition of a toxic of toxiproxy.
const distance = `{"name":"distance","type":"latency","stream":"downstream","toxicity":1,"attributes":{"latency":150,"jitter":0}}`

// measureRegion measures row I3.
func (i *ingestion) measureRegion(ctx context.Context) error {
	address, err := url.Parse(i.redisURL)
	if err != nil {
		return err
	}
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics use the global logger
	proxies := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	wire := toxiproxy.NewProxy(proxies, "region", "127.0.0.1:0", address.Host)
	if err := wire.Start(); err != nil {
		return err
	}
	defer wire.Stop()
	if _, err := wire.Toxics.AddToxicJson(strings.NewReader(distance)); err != nil {
		return err
	}
	address.Host = wire.Listen
	far := clickstream.Endpoint{URL: address.String(), Far: true}
	stream, err := clickstream.Connect(far)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }()
	blocking, err := clickstream.ConnectBlocking(far)
	if err != nil {
		return err
	}
	defer func() { _ = blocking.Close() }()

	const what = "clicks from the stream of a region 150 ms away, rows"
	drainFar := func(ctx context.Context) (sample, error) { return i.drain(ctx, stream, blocking) }
	got, err := i.b.takeTurns(ctx, what, drainFar, i.b.yardstick(i.drainStream))
	if err != nil {
		return err
	}
	i.b.compare("I3", what, "from the home region", "≥ 0.4", got[0], got[1], rate, perSecond)
	return nil
}
