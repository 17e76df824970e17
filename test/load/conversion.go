package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/server/conversion"
	"github.com/tributary-hq/tributary/storage/postgres"
)

const (
	conversionsPath = "/api/v1/conversions"
	conversionRound = 2 * time.Second
	// fillDuration is the time for which conversions fill each database before the
	// measured rounds.
	fillDuration = 10 * time.Second
	// coreConnections and coreGCPercent are the values that cmd/core sets. They are used
	// when the service runs in this process.
	coreConnections = 48
	coreGCPercent   = 150
)

// clientCounts contains the numbers of clients for which conversions have performance
// goals.
var clientCounts = []int{16, 64}

// measureConversions measures the rows V1, V2 and V3 of the results.
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

	// Report conversions through the API. The scripts of pgbench insert the same rows as
	// one of these conversions.
	warm := traffic{
		address: core.address, processes: measuredProcesses{pid: core.pid}, connections: 1, measured: warmUp,
		status: http.StatusCreated, request: s.appendReport,
	}
	if _, err := warm.run(ctx); err != nil {
		return core.fail(err)
	}
	script, mainScript := b.file("conversion.sql"), b.file("main.sql")
	if err := s.writeScript(ctx, ours, script); err != nil {
		return err
	}
	if err := s.writeScript(ctx, ours, mainScript, "conversions", "commissions", "events"); err != nil {
		return err
	}
	// Fill both databases with conversions, so that the tables have rows and statistics
	// like the tables of a shop in use.
	busy := warm
	busy.connections, busy.measured = 64, fillDuration
	if _, err := busy.run(ctx); err != nil {
		return core.fail(err)
	}
	if err := core.pause(); err != nil {
		return err
	}
	if _, err := b.pgbench(ctx, pgbench, twin, script, 64, s.clicks, fillDuration); err != nil {
		return err
	}
	if err := errors.Join(execute(ctx, ours.url, "vacuum analyze"), execute(ctx, twin.url, "vacuum analyze"), core.resume()); err != nil {
		return err
	}
	onTwin := func(script string, clients int) side {
		return func(ctx context.Context) (sample, error) {
			if err := b.settle(ctx); err != nil {
				return sample{}, err
			}
			return b.pgbench(ctx, pgbench, twin, script, clients, s.clicks, conversionRound)
		}
	}
	for _, clients := range clientCounts {
		what := conversionsPath[len("/api/v1"):] + ", " + strconv.Itoa(clients) + " in flight"
		report := func(ctx context.Context) (sample, error) {
			if err := errors.Join(b.settle(ctx), core.resume()); err != nil {
				return sample{}, err
			}
			load := traffic{
				address: core.address, processes: measuredProcesses{pid: core.pid}, connections: clients, measured: conversionRound,
				status: http.StatusCreated, request: s.appendReport,
			}
			got, err := load.run(ctx)
			if err != nil {
				return got, core.fail(err)
			}
			// Pause the core, because its remaining background work would disturb
			// pgbench.
			return got, core.pause()
		}
		if err := core.pause(); err != nil {
			return err
		}
		got, err := b.takeTurns(ctx, what, report, b.yardstick(onTwin(script, clients)))
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
	core.stop()
	if err := errors.Join(execute(ctx, ours.url, "vacuum analyze"), execute(ctx, twin.url, "vacuum analyze")); err != nil {
		return err
	}
	return b.measureTransactions(ctx, ours, s,
		func(clients int) side { return onTwin(script, clients) }, func(clients int) side { return onTwin(mainScript, clients) })
}

// measureTransactions measures the rows V1 and V2 of the results. It calls the service in this process,
// without HTTP, credentials and rate limits. The jobs that the conversions create do not
// run, because pgbench has no jobs either. V1 is compared with allStatements, and V2 with
// mainStatements.
func (b *bench) measureTransactions(ctx context.Context, db *database, s *shop, allStatements, mainStatements func(clients int) side) error {
	store, err := postgres.Open(ctx, postgres.Config{URL: db.url, MaxConns: coreConnections})
	if err != nil {
		return err
	}
	defer store.Close()
	defer debug.SetGCPercent(debug.SetGCPercent(coreGCPercent))
	service := conversion.New(conversion.Config{DB: store, HashKeys: affiliate.HashKeys{[]byte(hashKey)}, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	ctx = server.WithPrincipal(ctx, server.Principal{Kind: server.SecretKey, Workspace: s.workspace, Mode: affiliate.ModeLive})
	report := func(ctx context.Context, _ int, phase *atomic.Int32) (took []time.Duration, err error) {
		for {
			current := phase.Load()
			if current == over {
				return took, nil
			}
			began := time.Now()
			if _, err := service.ReportConversion(ctx, s.reportRequest()); err != nil {
				return nil, err
			}
			if current == measuring && phase.Load() == measuring {
				took = append(took, time.Since(began))
			}
		}
	}
	goals := map[int][2]string{16: {"≥ 3.5", "≥ 2.5"}, 64: {"≥ 7", "≥ 5"}}
	for _, clients := range clientCounts {
		what := "the transaction, " + strconv.Itoa(clients) + " in flight"
		transactions := func(ctx context.Context) (sample, error) {
			if err := b.settle(ctx); err != nil {
				return sample{}, err
			}
			return measureWorkers(ctx, clients, conversionRound, measuredProcesses{pid: os.Getpid()}, report)
		}
		got, err := b.takeTurns(ctx, what, transactions, b.yardstick(allStatements(clients)), b.yardstick(mainStatements(clients)))
		if err != nil {
			return err
		}
		b.compare("V1", what, "pgbench", goals[clients][0], got[0], got[1], rate, perSecond)
		b.compare("", "  p99", "pgbench", "", got[0], got[1], p99, millis)
		b.compare("V2", what, "pgbench with the main statements only: look-up, conversion, commission, events", goals[clients][1], got[0], got[2], rate, perSecond)
	}
	return nil
}
