package main

import (
	"context"

	"github.com/tributary-hq/tributary/tools/servers"
)

// launchBare starts test/load/bare, the server with which the benchmarks compare the
// service. It does not wait until the server is ready. The server responds to each click
// with a copy of responseTemplate, a response of the collector, in which it replaces the
// click id.
func (b *bench) launchBare(ctx context.Context, responseTemplate string) (*process, error) {
	addresses, err := servers.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, "bare", addresses[0], nil, b.file("bare"), addresses[0], responseTemplate)
}

// startBare starts test/load/bare and returns when it is ready.
func (b *bench) startBare(ctx context.Context, response string) (*process, error) {
	p, err := b.launchBare(ctx, response)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, healthPath); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
