package main

import (
	"context"

	"github.com/tributary-hq/tributary/tools/servers"
)

// launchBare starts the yardstick's server, test/load/bare, and does not wait for
// it. It answers clicks the way answer says.
func (b *bench) launchBare(ctx context.Context, answer string) (*process, error) {
	addresses, err := servers.FreeAddresses(1)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, "bare", addresses[0], nil, b.file("bare"), addresses[0], answer)
}

// startBare starts it and returns when it answers.
func (b *bench) startBare(ctx context.Context, answer string) (*process, error) {
	p, err := b.launchBare(ctx, answer)
	if err != nil {
		return nil, err
	}
	if err := p.ready(ctx, healthPath); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}
