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

	// stopServer bounds the graceful end of one private server.
	stopServer = 20 * time.Second
)

const serversHeading = `Where the private servers were the last time. A variable of the environment
with one of these values counts as unset.
`

// databases are the Postgres and the Redis of a run.
type databases struct {
	postgresURL, redisURL string
	// What this run has started; nil for a server that the environment names.
	postgres, redis *privateServer
}

// privateServer is a running server and the file that gets what it prints.
type privateServer struct {
	*servers.Server
	log *os.File
}

// startDatabases takes the servers at the given addresses, and starts its own for
// each that is private. Stop the result, error or not.
func startDatabases(ctx context.Context, f *folder, postgresURL, redisURL string) (*databases, error) {
	d := &databases{postgresURL: postgresURL, redisURL: redisURL}
	last, err := readVariables(f.file("servers"))
	if err != nil {
		return d, err
	}
	// Both at once: each may have to recover.
	group, ctx := errgroup.WithContext(ctx)
	if d.postgresURL == private {
		group.Go(func() (err error) {
			d.postgres, err = f.start(postgresName, func(dir string, log *os.File) (*servers.Server, error) {
				return atSamePort(last[databaseURLName], func(port int) (*servers.Server, error) {
					return servers.StartPostgres(ctx, servers.PostgresConfig{Dir: dir, Port: port, Durable: true, Log: log})
				})
			})
			return err
		})
	}
	if d.redisURL == private {
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
	})
}

// start starts a server with the folder and the log that belong to its name.
func (f *folder) start(name string, start func(dir string, log *os.File) (*servers.Server, error)) (*privateServer, error) {
	dir, err := f.dataOf(name)
	if err != nil {
		return nil, err
	}
	log, err := f.newLog(name)
	if err != nil {
		return nil, err
	}
	server, err := start(dir, log)
	if err != nil {
		return nil, errors.Join(err, log.Close())
	}
	return &privateServer{Server: server, log: log}, nil
}

// newLog begins a log anew: it is about this run.
func (f *folder) newLog(name string) (*os.File, error) {
	return os.OpenFile(f.file(name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY|os.O_APPEND, 0o600)
}

// atSamePort starts a private server at the port that it had the last time, so what
// was sourced or written down then keeps working; at any, when another program has
// that one now.
func atSamePort(last string, start func(port int) (*servers.Server, error)) (*servers.Server, error) {
	u, err := url.Parse(last)
	if err != nil {
		return start(0)
	}
	port, _ := strconv.Atoi(u.Port()) // 0: none
	server, err := start(port)
	if port != 0 && servers.PortTaken(err) {
		return start(0)
	}
	return server, err
}

// watch returns when one of our servers ends by itself, or ctx does.
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

// stop ends what this run has started: Redis before Postgres, as the clicks flow.
// One that had ended by itself has been reported by watch.
func (d *databases) stop() error {
	var faults []error
	for _, server := range []*privateServer{d.redis, d.postgres} {
		if server == nil {
			continue
		}
		select {
		case <-server.Done():
		default:
			ctx, cancel := context.WithTimeout(context.Background(), stopServer)
			if err := server.Stop(ctx); err != nil {
				faults = append(faults, fmt.Errorf("stop: %w", err))
			}
			cancel()
		}
		faults = append(faults, server.log.Close())
	}
	return errors.Join(faults...)
}
