// Command collector receives clicks over HTTP and appends them to the click stream. It
// needs only Redis. Any number of collectors can run, close to the visitors.
//
//	collector                         receive clicks
//	collector journal inspect [dir]   print the size and the damaged records of a journal;
//	                                  the exit code is 1 if the journal is damaged
//	collector journal export [dir]    print each click in a journal as a line of JSON
//	collector healthcheck [--serving|--ready]
//	                                  check that the collector on this machine runs (with
//	                                  --serving: and is not stopping; with --ready: and is
//	                                  ready); the exit code is 0 if so
//	collector version                 print version and commit
//
// The settings are read from the environment; docs/operations/settings.md lists them.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/private"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/cmd/tracing"
	"github.com/tributary-hq/tributary/cmd/version"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

var errUsage = errors.New("usage: collector | collector journal inspect [dir] | collector journal export [dir] | " +
	"collector healthcheck [--serving|--ready] | collector version")

func main() {
	if err := execute(os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "collector: %v\n", err)
		if errors.Is(err, errUsage) {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func execute(args []string, out, errs io.Writer) error {
	switch {
	case len(args) == 0:
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
		defer stop()
		return run(ctx, clock.New(time.Now))
	case args[0] == "journal":
		return runJournal(args[1:], out, errs)
	case args[0] == "healthcheck":
		cfg, err := settings.Read[settings.CollectorMetrics]()
		if err != nil {
			return err
		}
		return private.Check(context.Background(), cfg.MetricsListen, args[1:])
	case len(args) == 1 && args[0] == "version":
		_, err := fmt.Fprintln(out, version.String())
		return err
	}
	return errUsage
}

// Most objects in a collector are used for one request only. With Go's default setting,
// garbage collection takes a sixth of the CPU time. gcPercent makes garbage collection
// less frequent and costs about 30 MiB of memory. memoryLimit makes garbage collection
// more frequent when the process has nearly reached the limit. Twice the size of the
// country file is added to memoryLimit, because the file is in memory twice while a new
// version replaces it. The variables GOGC and GOMEMLIMIT override these settings.
const (
	gcPercent   = 800
	memoryLimit = 256 << 20
)

func run(ctx context.Context, processClock *clock.Clock) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	cfg, err := settings.Read[settings.Collector]()
	if err != nil {
		return err
	}
	log := tracing.NewLogger(os.Stderr, cfg.LogLevel)
	files := certificates.New(log)
	files.ReloadOnHangup()
	settings.WarnUnknown(log, os.Environ())
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit + 2*fileSize(cfg.CountryDB))
	}
	tlsConfig, err := cfg.ServerTLS(files)
	if err != nil {
		return err
	}
	redisRoots, err := cfg.RedisRoots(files)
	if err != nil {
		return err
	}
	// Open the public port and the metrics port before any connection, so that a port in use
	// is reported at once.
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("TRIBUTARY_COLLECTOR_LISTEN: %w", err)
	}
	metricsListener, err := listen.Listen(ctx, "tcp", cfg.MetricsListen)
	if err != nil {
		return errors.Join(fmt.Errorf("TRIBUTARY_METRICS_LISTEN: %w", err), listener.Close())
	}
	registry := private.NewRegistry()
	registry.MustRegister(files)
	traces, err := tracing.Open(cfg.Traces, "tributary-collector", registry, log)
	if err != nil {
		return errors.Join(err, listener.Close(), metricsListener.Close())
	}
	defer traces.Close()
	config := edge.Config(cfg, redisRoots)
	config.Traces, config.Now = traces, processClock.Now
	redisClockCheck, err := edge.CompareClock(ctx, processClock, config.Stream, log, registry)
	if err != nil {
		return errors.Join(err, listener.Close(), metricsListener.Close())
	}
	hashKeyCheck, err := edge.CompareHashKey(ctx, cfg.HashKeys, config.Cache, log, registry)
	if err != nil {
		return errors.Join(err, redisClockCheck.Close(), listener.Close(), metricsListener.Close())
	}
	clicks, err := collector.Open(config, log, registry)
	if err != nil {
		return errors.Join(err, hashKeyCheck.Close(), redisClockCheck.Close(), listener.Close(), metricsListener.Close())
	}
	ready := func(ctx context.Context) error {
		if missing := clicks.MissingDependency(ctx); missing != "" {
			return errors.New(missing)
		}
		return nil
	}
	// The collector also stops if the metrics server fails.
	ctx, end := context.WithCancel(ctx)
	defer end()
	metrics := private.NewServer(ctx, registry, ready, log)
	metricsServed := make(chan error, 1)
	go func() {
		defer end()
		metricsServed <- httpedge.Serve(metrics, metricsListener, nil)
	}()
	filesEnded := make(chan error, 1)
	go func() { filesEnded <- files.Run(ctx) }()
	var comparisons sync.WaitGroup
	comparisons.Go(func() { processClock.Run(ctx) })
	comparisons.Go(func() { hashKeyCheck.Run(ctx) })

	log.Info("collector is listening", "version", version.String(), "address", listener.Addr().String(), "tls", tlsConfig != nil,
		"metrics", metricsListener.Addr().String())
	err = clicks.Run(ctx, listener, tlsConfig)

	shutdown, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	end()
	comparisons.Wait()
	return errors.Join(err, metrics.Shutdown(shutdown), <-metricsServed, <-filesEnded, hashKeyCheck.Close(), redisClockCheck.Close())
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

var errDamaged = errors.New("the journal is damaged")

// runJournal runs "collector journal" with the given arguments. It only reads the
// journal, so a collector may use the same journal at the same time. It returns errUsage
// for invalid arguments and errDamaged if the journal has damaged records.
func runJournal(args []string, out, notes io.Writer) error {
	if len(args) == 0 || len(args) > 2 {
		return errUsage
	}
	var command func(dir string, out, notes io.Writer) error
	switch args[0] {
	case "inspect":
		command = inspect
	case "export":
		command = export
	default:
		return errUsage
	}
	if len(args) == 2 {
		return command(args[1], out, notes)
	}
	cfg, err := settings.Read[struct {
		Dir string `env:"TRIBUTARY_JOURNAL_DIR"`
	}]()
	if err != nil {
		return err
	}
	if cfg.Dir == "" {
		return errors.New("the folder of the journal is missing: pass it as an argument or set TRIBUTARY_JOURNAL_DIR")
	}
	return command(cfg.Dir, out, notes)
}

func inspect(dir string, out, _ io.Writer) error {
	report, err := journal.Read(dir, func(journal.Record) error { return nil })
	if err != nil {
		return err
	}
	lines := bufio.NewWriter(out)
	fmt.Fprintf(lines, "segments  %d\nbytes     %d\nrecords   %d\nclicks    %d\n", report.Segments, report.Bytes, report.Records, report.Clicks)
	if report.Records > 0 {
		fmt.Fprintf(lines, "oldest    %s\nnewest    %s\n", report.Oldest.Format(time.RFC3339Nano), report.Newest.Format(time.RFC3339Nano))
	}
	fmt.Fprintf(lines, "damaged   %d\n", damagedRecords(report))
	for _, d := range report.Damage {
		fmt.Fprintf(lines, "  %s: %d bytes at offset %d, %d records\n", d.Segment, d.Bytes, d.Offset, d.Records)
	}
	if tail := report.Tail; tail.Bytes > 0 {
		fmt.Fprintf(lines, "unfinished write of %d bytes at the end of %s (this is not damage)\n", tail.Bytes, tail.Segment)
	}
	if err := lines.Flush(); err != nil {
		return err
	}
	if len(report.Damage) > 0 {
		return errDamaged
	}
	return nil
}

func damagedRecords(report journal.Report) (n int) {
	for _, d := range report.Damage {
		n += d.Records
	}
	return n
}

func export(dir string, out, notes io.Writer) error {
	lines := bufio.NewWriter(out)
	var clicks, invalid int
	report, err := journal.Read(dir, func(r journal.Record) error {
		var batch edgev1.ClickBatch
		if err := proto.Unmarshal(r.Batch, &batch); err != nil {
			invalid++
			fmt.Fprintf(notes, "%s: the record at offset %d cannot be decoded: %v\n", r.Segment, r.Offset, err)
			return nil
		}
		for _, click := range batch.Clicks {
			line, err := clickLine(click)
			if err != nil {
				return err
			}
			if _, err := lines.Write(append(line, '\n')); err != nil {
				return err
			}
			clicks++
		}
		return nil
	})
	if err := errors.Join(err, lines.Flush()); err != nil {
		return err
	}
	damaged := damagedRecords(report) + invalid
	fmt.Fprintf(notes, "%d clicks in %d records, %d damaged records\n", clicks, report.Records, damaged)
	if damaged > 0 {
		return errDamaged
	}
	return nil
}

// clickLine returns a click as JSON. The keys are the names of the proto fields. Ids are
// formatted as UUIDs. Hashes, and ids that are not valid UUIDs, are formatted in base64.
func clickLine(click *edgev1.Click) ([]byte, error) {
	raw, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(click)
	if err != nil {
		return nil, err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	for name, value := range map[string][]byte{
		"id": click.Id, "workspace_id": click.WorkspaceId, "program_id": click.ProgramId,
		"participant_id": click.ParticipantId, "link_id": click.LinkId,
	} {
		if id, err := uuid.FromBytes(value); err == nil {
			fields[name] = json.RawMessage(`"` + id.String() + `"`)
		}
	}
	return json.Marshal(fields)
}
