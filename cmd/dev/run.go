package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/collector"
	"github.com/tributary-hq/tributary/gateway/site"
	"github.com/tributary-hq/tributary/storage/postgres"
	"github.com/tributary-hq/tributary/tools/mailsink"
	"github.com/tributary-hq/tributary/web"
)

const (
	// logName is the name, without suffix, of the log file of the service, the shop and the
	// mail sink.
	logName = "tributary"
	// seedTimeout is the maximum time for the creation of the demo data.
	seedTimeout = 2 * time.Minute
)

// run starts everything and serves until ctx ends or a part fails. The end of ctx is not an
// error, but a failure to stop a part is.
func run(ctx context.Context, path string, environ []string, out io.Writer) (err error) {
	f, err := openFolder(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()

	secrets, err := loadSecrets(f.file("secrets"))
	if err != nil {
		return err
	}
	last, err := readVariables(f.file("servers"))
	if err != nil {
		return err
	}
	if _, err := loadAuthority(f.file(authorityName), f.file(authorityKeyName), time.Now()); err != nil {
		return err
	}
	values := environment(environ, secrets, last)
	if values[webhookCAName] == "" {
		values[webhookCAName] = f.file(authorityName)
	}
	listeners, err := listen(values)
	if err != nil {
		return err
	}
	defer listeners.close()
	setLanding(values, listeners)
	sendToSink(values, listeners)
	stripe, err := listenForStripe(values, last[stripeURLName])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stripe.stop()) }()
	core, edge, landing, err := configure(values)
	if err != nil {
		return err
	}

	fmt.Fprintf(out, "Starting in %s\n  Postgres and Redis …\n", f.path)
	defer context.AfterFunc(ctx, func() { fmt.Fprintln(out, "\nStopping.") })()
	if err := stripe.start(f); err != nil {
		return err
	}
	if stripe != nil {
		last[stripeURLName] = stripe.address()
	}
	d, err := startDatabases(ctx, f, last, core.DatabaseURL, core.URL)
	defer func() { err = errors.Join(err, d.stop()) }()
	if err == nil {
		err = serve(ctx, f, d, stripe, listeners, core, edge, landing, out)
	} else if ctx.Err() != nil {
		return nil // ctx ended while the servers started
	}
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.Cause(ctx))) {
		return nil // ctx ended before all parts ran
	}
	return err
}

// serve runs the core, the gateway, the collector, the landing service, the demo shop and
// the mail sink. They listen on the given listeners and use the Postgres and the Redis in
// d. stripe is nil if the environment sets the address of Stripe's API.
func serve(
	ctx context.Context, f *folder, d *databases, stripe *stripeProcess, listeners portListeners,
	core settings.Core, edge collector.Config, landing settings.Landing, out io.Writer,
) error {
	core.DatabaseURL, core.URL, edge.Stream.URL = d.postgresURL, d.redisURL, d.redisURL
	if core.LinkURL == "" {
		core.LinkURL = "http://" + address(listeners.collector())
	}
	if edge.Cache.URL == privateURL {
		edge.Cache.URL = d.redisURL
	}
	// There is no load balancer, so the collector can stop without a delay. As in
	// production, the collector has a journal for clicks that it cannot append to the
	// stream.
	edge.ShutdownDelay = 0
	if edge.JournalDir == "" {
		edge.JournalDir = f.file("journal")
	}
	file, err := f.newLog(logName)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	log := slog.New(slog.NewMultiHandler(
		slog.NewJSONHandler(file, nil),
		slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}),
	))

	settings.WarnUnknown(log, os.Environ())
	fmt.Fprintln(out, "  database schema …")
	if err := postgres.Migrate(ctx, d.postgresURL); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	fmt.Fprintln(out, "  core, gateway, collector and landing service …")
	c, err := assemble.NewCore(ctx, core, certificates.New(log), log, clock.New(time.Now))
	if err != nil {
		return err
	}
	defer c.Close()
	forms, err := newLanding(ctx, landing, d, log, c.Registry())
	if err != nil {
		return err
	}
	defer forms.Close()
	redisRoots, err := core.RedisRoots(certificates.New(log))
	if err != nil {
		return err
	}
	edge.Stream.Roots, edge.Cache.Roots = redisRoots, redisRoots
	clicks, err := collector.Open(edge, log, c.Registry())
	if err != nil {
		return err
	}
	at := systemAddresses{
		api: address(listeners.api()), collector: address(listeners.collector()),
		grpc: address(listeners.grpc()), metrics: address(listeners.metrics()), shop: address(listeners.shop()),
		mailSink: address(listeners.mailSink()), landing: address(listeners.landing()),
		postgresURL: d.postgresURL, redisURL: d.redisURL, stripeURL: core.StripeAPIURL,
	}
	demoShop := &shop{api: apiClient{url: at.apiURL()}, collector: at.collectorURL(), landing: at.landingURL()}
	mails := mailsink.New(mailCapacity)
	if c.Site, err = site.New(web.Files()); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	pagesBuilt := make(chan struct{})
	group.Go(func() error {
		return withPartName("web pages", watchPages(ctx, c.Site, sync.OnceFunc(func() { close(pagesBuilt) }), out))
	})
	group.Go(func() error {
		return c.Run(ctx, assemble.Listeners{API: listeners.api(), GRPC: listeners.grpc(), Metrics: listeners.metrics()})
	})
	group.Go(func() error { return withPartName("collector", clicks.Run(ctx, listeners.collector(), nil)) })
	group.Go(func() error { return withPartName("landing", forms.Run(ctx, listeners.landing())) })
	group.Go(func() error { return d.watch(ctx) })
	group.Go(func() error { return stripe.watch(ctx) })
	group.Go(func() error { return withPartName("shop", serveSite(ctx, listeners.shop(), demoShop, log)) })
	group.Go(func() error { return withPartName("mail sink", mails.ServeSMTP(ctx, listeners.mailSMTP())) })
	group.Go(func() error {
		return withPartName("mail sink", serveSite(ctx, listeners.mailSink(), mails.Handler(), log))
	})
	group.Go(func() error {
		select {
		case <-pagesBuilt:
		case <-ctx.Done():
		}
		if err := prepareDemo(ctx, f, at, stripe, demoShop, out); err != nil && ctx.Err() == nil {
			return fmt.Errorf("demo: %w", err)
		}
		return nil // if ctx has ended, another part returns the reason
	})
	return group.Wait()
}

func withPartName(part string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", part, err)
	}
	return nil
}

// prepareDemo creates missing demo data, opens the shop, and prints the addresses and the
// walkthrough.
func prepareDemo(ctx context.Context, f *folder, at systemAddresses, stripe *stripeProcess, site *shop, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	saved, err := readVariables(f.file("env"))
	if err != nil {
		return err
	}
	say := func(format string, args ...any) { fmt.Fprintf(out, format+"\n", args...) }
	d := &demo{
		api:       apiClient{url: at.apiURL(), printLine: say},
		collector: apiClient{url: at.collectorURL(), printLine: say},
		shopURL:   "http://" + at.shop + "/",
		stripeURL: stripe.address(),
		values:    saved,
		printLine: say,
	}
	if err := d.api.waitUntilReady(ctx, "/api/v1/health/ready"); err != nil {
		return err
	}
	if err := d.collector.waitUntilReady(ctx, "/v1/health/ready"); err != nil {
		return err
	}
	if err := (apiClient{url: at.landingURL()}).waitUntilReady(ctx, "/api/v1/health/ready"); err != nil {
		return err
	}
	fmt.Fprintln(out, "  demo data …")
	err = d.seed(ctx)
	// Write the ids and keys of the demo data to the file env, even if seed has failed.
	err = errors.Join(err, writeVariables(f.file("env"), envHeading, at.variables(d.values)))
	if err != nil {
		return err
	}
	d.values[stripeURLName] = stripe.address()
	site.setValues(d.values)
	printOverview(out, f, at, d.values)
	return nil
}

func (l portListeners) api() net.Listener       { return l[0] }
func (l portListeners) collector() net.Listener { return l[1] }
func (l portListeners) grpc() net.Listener      { return l[2] }
func (l portListeners) metrics() net.Listener   { return l[3] }
func (l portListeners) shop() net.Listener      { return l[4] }
func (l portListeners) mailSMTP() net.Listener  { return l[5] }
func (l portListeners) mailSink() net.Listener  { return l[6] }
func (l portListeners) landing() net.Listener   { return l[7] }
