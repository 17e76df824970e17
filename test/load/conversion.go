package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"
)

const (
	conversionsPath = "/api/v1/conversions"
	conversionRound = 2 * time.Second
	shopOpenFor     = 10 * time.Second
)

// clientCounts are those that the conversions' goals name.
var clientCounts = []int{16, 64}

// measureConversions makes row V3.
func measureConversions(ctx context.Context, b *bench) error {
	pgbench, err := b.findPgbench(ctx)
	if err != nil {
		return err
	}
	ours, err := b.newDatabase(ctx, "conversions", "")
	if err != nil {
		return err
	}
	defer ours.drop()
	s, err := b.openShop(ctx, ours)
	if err != nil {
		return fmt.Errorf("open a shop: %w", err)
	}
	twin, err := b.newDatabase(ctx, "pgbench", ours.name)
	if err != nil {
		return err
	}
	defer twin.drop()
	core, err := b.startCore(ctx, ours)
	if err != nil {
		return err
	}
	defer core.stop()

	// One conversion through the front door shows what pgbench has to write.
	warm := traffic{address: core.address, pid: core.pid, connections: 1, measured: warmUp, status: http.StatusCreated, request: s.request}
	if _, err := warm.run(ctx); err != nil {
		return core.fail(err)
	}
	script := b.file("conversion.sql")
	if err := s.writeScript(ctx, ours, script); err != nil {
		return err
	}
	// Both go on as shops that have sold for a while: with rows, and with what the
	// database knows of them.
	busy := warm
	busy.connections, busy.measured = 64, shopOpenFor
	if _, err := busy.run(ctx); err != nil {
		return core.fail(err)
	}
	if err := core.pause(); err != nil {
		return err
	}
	if _, err := b.pgbench(ctx, pgbench, twin, script, 64, s.clicks, shopOpenFor); err != nil {
		return err
	}
	if err := errors.Join(execute(ctx, ours.url, "vacuum analyze"), execute(ctx, twin.url, "vacuum analyze"), core.resume()); err != nil {
		return err
	}
	for _, clients := range clientCounts {
		what := conversionsPath[len("/api/v1"):] + ", " + strconv.Itoa(clients) + " in flight"
		report := func(ctx context.Context) (sample, error) {
			if err := errors.Join(b.settle(ctx), core.resume()); err != nil {
				return sample{}, err
			}
			load := traffic{
				address: core.address, pid: core.pid, connections: clients, measured: conversionRound,
				status: http.StatusCreated, request: s.request,
			}
			got, err := load.run(ctx)
			if err != nil {
				return got, core.fail(err)
			}
			// What is left to do in the background is not to disturb pgbench.
			return got, core.pause()
		}
		yardstick := func(ctx context.Context) (sample, error) {
			if err := b.settle(ctx); err != nil {
				return sample{}, err
			}
			return b.pgbench(ctx, pgbench, twin, script, clients, s.clicks, conversionRound)
		}
		if err := core.pause(); err != nil {
			return err
		}
		got, err := b.takeTurns(ctx, what, report, yardstick)
		if err := errors.Join(err, core.resume()); err != nil {
			return err
		}
		goal := ""
		if clients == 64 {
			goal = "≥ 3"
		}
		b.compare("V3", "POST "+what, "pgbench", goal, got[0], got[1], rate, perSecond)
		b.compare("", "  p50", "pgbench", "", got[0], got[1], p50, millis)
		b.compare("", "  p99", "pgbench", "", got[0], got[1], p99, millis)
	}
	return nil
}
