package main

import "context"

// launchBare starts the yardstick's server, test/load/bare, and does not wait for
// it. It answers clicks the way answer says.
func (b *bench) launchBare(ctx context.Context, answer string) (*process, error) {
	address, err := freeAddress(ctx)
	if err != nil {
		return nil, err
	}
	return b.start(ctx, "bare", address, nil, b.file("bare"), address, answer)
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
