package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tributary-hq/tributary/tools/servers"
)

const (
	databaseURLName = "TRIBUTARY_DATABASE_URL"
	redisURLName    = "TRIBUTARY_REDIS_URL"

	postgresName = "postgres"
	redisName    = "redis"

	// serverStopTimeout is the maximum time for a private server to stop gracefully.
	serverStopTimeout = 20 * time.Second
)

const serversHeading = `The addresses of the private servers of the last run. If a variable in the
environment has one of these values, the variable is ignored.
`

// databases holds the Postgres and the Redis of a run.
type databases struct {
	postgresURL, redisURL string
	// postgres and redis are the servers that this run has started. A field is nil if the
	// address of the server was set in the environment.
	postgres, redis *privateServer
}

// privateServer is a running server and its log file.
type privateServer struct {
	*servers.Server
	log *os.File
}

// startDatabases starts a server in place of each URL that is privateURL. Any other URL belongs to an
// existing server. The map last has the variables in the file named servers; startDatabases updates the
// map and writes the file. The caller must call stop on the result, even if there is an error.
func startDatabases(ctx context.Context, f *folder, last map[string]string, postgresURL, redisURL string) (*databases, error) {
	d := &databases{postgresURL: postgresURL, redisURL: redisURL}
	// The servers start in parallel, because recovery after a crash may take long.
	group, ctx := errgroup.WithContext(ctx)
	if d.postgresURL == privateURL {
		group.Go(func() (err error) {
			d.postgres, err = f.start(postgresName, func(dir string, log *os.File) (*servers.Server, error) {
				return atSamePort(last[databaseURLName], func(port int) (*servers.Server, error) {
					return servers.StartPostgres(ctx, servers.PostgresConfig{Dir: dir, Port: port, Durable: true, Log: log})
				})
			})
			return err
		})
	}
	if d.redisURL == privateURL {
		group.Go(func() (err error) {
			d.redis, err = f.start(redisName, func(dir string, log *os.File) (*servers.Server, error) {
				return atSamePort(last[redisURLName], func(port int) (*servers.Server, error) {
					return servers.StartRedis(ctx, servers.RedisConfig{Dir: dir, Port: port, Durable: true, Log: log})
				})
			})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return d, err
	}
	if d.postgres != nil {
		d.postgresURL, last[databaseURLName] = d.postgres.URL, d.postgres.URL
	}
	if d.redis != nil {
		d.redisURL, last[redisURLName] = d.redis.URL, d.redis.URL
	}
	return d, writeVariables(f.file("servers"), serversHeading, []variable{
		{databaseURLName, last[databaseURLName]},
		{redisURLName, last[redisURLName]},
		{stripeURLName, last[stripeURLName]},
	})
}

// start calls launch with the data folder and the log file of a private server. The function
// launch starts the server.
func (f *folder) start(name string, launch func(dir string, log *os.File) (*servers.Server, error)) (*privateServer, error) {
	dir, err := f.dataOf(name)
	if err != nil {
		return nil, err
	}
	log, err := f.newLog(name)
	if err != nil {
		return nil, err
	}
	server, err := launch(dir, log)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &privateServer{Server: server, log: log}, nil
}

// newLog creates an empty log file for this run.
func (f *folder) newLog(name string) (*os.File, error) {
	return os.OpenFile(f.file(name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// atSamePort starts a private server on the port of the previous run, so that addresses
// that a shell has sourced still work. lastURL is the URL of the server in that run. If
// another program uses the port, the server uses any free port.
func atSamePort(lastURL string, start func(port int) (*servers.Server, error)) (*servers.Server, error) {
	u, err := url.Parse(lastURL)
	if err != nil {
		return start(0)
	}
	port, _ := strconv.Atoi(u.Port()) // 0 if the URL has no port
	server, err := start(port)
	if port != 0 && servers.PortTaken(err) {
		return start(0)
	}
	return server, err
}

// watch waits until ctx ends or a private server exits. If a server exits, watch returns
// an error.
func (d *databases) watch(ctx context.Context) error {
	var postgresEnded, redisEnded <-chan struct{}
	if d.postgres != nil {
		postgresEnded = d.postgres.Done()
	}
	if d.redis != nil {
		redisEnded = d.redis.Done()
	}
	select {
	case <-postgresEnded:
		return d.postgres.Err()
	case <-redisEnded:
		return d.redis.Err()
	case <-ctx.Done():
		return nil
	}
}

// stop stops the servers that this run has started, Redis before Postgres. It ignores
// servers that have already exited, because watch has reported them.
func (d *databases) stop() error {
	var faults []error
	for _, server := range []*privateServer{d.redis, d.postgres} {
		if server == nil {
			continue
		}
		select {
		case <-server.Done():
		default:
			ctx, cancel := context.WithTimeout(context.Background(), serverStopTimeout)
			if err := server.Stop(ctx); err != nil {
				faults = append(faults, fmt.Errorf("stop: %w", err))
			}
			cancel()
		}
		faults = append(faults, server.log.Close())
	}
	return errors.Join(faults...)
}
