package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/postgres"
)

// describeMachine returns one line about the machine and the servers. It returns an
// error if the servers are not suitable for the measurement.
func describeMachine(ctx context.Context, b *bench) (line string, err error) {
	conn, err := pgx.Connect(ctx, b.postgres)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	settings := map[string]string{"fsync": "", "synchronous_commit": "", "server_version": ""}
	for name := range settings {
		var value string
		if err := conn.QueryRow(ctx, "select current_setting($1)", name).Scan(&value); err != nil {
			return "", err
		}
		settings[name] = value
	}
	if settings["fsync"] != "on" || settings["synchronous_commit"] != "on" {
		return "", errors.New("the Postgres server is not durable: start it with its default settings (tools/withservers -durable)")
	}
	client, err := b.redisClient(0)
	if err != nil {
		return "", err
	}
	defer func() { _ = client.Close() }()
	if n, err := client.DBSize(ctx).Result(); err != nil || n > 0 {
		return "", errors.Join(err, fmt.Errorf("the Redis server has %d keys: it must be empty and not in use, because this command changes its settings", n))
	}
	if appendOnly, err := client.ConfigGet(ctx, "appendonly").Result(); err != nil || appendOnly["appendonly"] != "yes" {
		return "", errors.Join(err, errors.New("the Redis server is not durable: start it with appendonly (tools/withservers -durable)"))
	}
	about, err := redisInfo(ctx, client, "server")
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d × %s, %s/%s, %s, PostgreSQL %s, Redis %s; %d rounds, scale %d",
		runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		firstField(settings["server_version"]), about["redis_version"], b.rounds, b.scale), nil
}

func processor() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "processor"
}

func firstField(text string) string {
	word, _, _ := strings.Cut(text, " ")
	return word
}

// redisURL returns the URL of a logical database of the Redis server. The parts use
// different databases, so that they do not read each other's keys.
func (b *bench) redisURL(database int) (string, error) {
	u, err := url.Parse(b.redis)
	if err != nil {
		return "", fmt.Errorf("%s is not a URL", redisName)
	}
	u.Path = "/" + strconv.Itoa(database)
	return u.String(), nil
}

func (b *bench) redisClient(database int) (*redis.Client, error) {
	text, err := b.redisURL(database)
	if err != nil {
		return nil, err
	}
	options, err := redis.ParseURL(text)
	if err != nil {
		return nil, fmt.Errorf("%s is not a Redis URL", redisName)
	}
	return redis.NewClient(options), nil
}

// These constants are the logical databases of the parts.
const (
	collectorRedis = 1 + iota
	ingestionRedis
	coreRedis
)

// database is a Postgres database that a part has created.
type database struct {
	b         *bench
	name, url string
}

// newDatabase creates an empty database with all migrations. If copyOf is set, it creates
// a copy of that database, to which there must be no connection.
func (b *bench) newDatabase(ctx context.Context, name, copyOf string) (*database, error) {
	d := &database{b: b, name: "tributary_load_" + name}
	u, err := url.Parse(b.postgres)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%s is not a postgres:// URL", databaseName)
	}
	u.Path = "/" + d.name
	d.url = u.String()
	create := "create database " + d.name
	if copyOf != "" {
		create += " template " + copyOf
	}
	if err := execute(ctx, b.postgres, "drop database if exists "+d.name+" with (force)", create); err != nil {
		return nil, err
	}
	if copyOf == "" {
		if err := postgres.Migrate(ctx, d.url); err != nil {
			d.drop()
			return nil, fmt.Errorf("migrate: %w", err)
		}
	}
	return d, nil
}

// drop deletes the database and closes its connections. An error is printed and otherwise
// ignored, because the whole server is deleted after the run.
func (d *database) drop() {
	if err := execute(context.Background(), d.b.postgres, "drop database if exists "+d.name+" with (force)"); err != nil {
		d.b.say("%v", err)
	}
}

// execute runs each statement in a transaction of its own, as the owner of the database.
func execute(ctx context.Context, url string, statements ...string) (err error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("%s: %w", sql, err)
		}
	}
	return nil
}

// settle writes a checkpoint. Each side calls settle before its measurement, so that
// Postgres does not write the data of the other side during the measurement.
func (b *bench) settle(ctx context.Context) error { return execute(ctx, b.postgres, "checkpoint") }

// findPgbench searches for pgbench in the folder of the server's binaries, where it has
// the same version as the server, and then on the PATH.
func (b *bench) findPgbench(ctx context.Context) (path string, err error) {
	conn, err := pgx.Connect(ctx, b.postgres)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var dir string
	if err := conn.QueryRow(ctx, "select setting from pg_config() where name = 'BINDIR'").Scan(&dir); err != nil {
		return "", err
	}
	if path, err := exec.LookPath(filepath.Join(dir, "pgbench")); err == nil {
		return path, nil
	}
	if path, err := exec.LookPath("pgbench"); err == nil {
		return path, nil
	}
	return "", fmt.Errorf("pgbench is neither in %s nor on the PATH: install it with the package of the Postgres server", dir)
}

// Values of the setting appendfsync: Redis flushes its log to disk once a second, or
// before it acknowledges a write.
const (
	everySecond = "everysec"
	always      = "always"
)

// settleRedis resets the settings of Redis before each part. With these settings Redis
// acknowledges a write only when the write is on disk.
func (b *bench) settleRedis(ctx context.Context) error {
	client, err := b.redisClient(0)
	if err != nil {
		return err
	}
	// Disable the automatic rewrite of the log, because it would slow down some rounds.
	err = errors.Join(
		client.ConfigSet(ctx, "appendfsync", always).Err(),
		client.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(),
	)
	return errors.Join(err, client.Close())
}

// redisInfo returns the values of a section of INFO by name.
func redisInfo(ctx context.Context, client redis.UniversalClient, section string) (map[string]string, error) {
	text, err := client.Info(ctx, section).Result()
	if err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			values[name] = value
		}
	}
	return values, nil
}

// redisSum returns the sum of some values in a section of INFO.
func redisSum(ctx context.Context, client redis.UniversalClient, section string, names ...string) (float64, error) {
	values, err := redisInfo(ctx, client, section)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	var faults []error
	for _, name := range names {
		n, err := strconv.ParseFloat(values[name], 64)
		if err != nil {
			faults = append(faults, fmt.Errorf("INFO %s: %s is %q", section, name, values[name]))
		}
		sum += n
	}
	return sum, errors.Join(faults...)
}

// redisTime returns the CPU time of the whole Redis process in user and kernel mode. It
// includes the thread that flushes the log.
func redisTime(ctx context.Context, client redis.UniversalClient) (time.Duration, error) {
	seconds, err := redisSum(ctx, client, "cpu", "used_cpu_user", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second)), err
}

// redisLog returns the size of the log (AOF) in bytes, including the part that is not
// yet written.
func redisLog(ctx context.Context, client redis.UniversalClient) (float64, error) {
	return redisSum(ctx, client, "persistence", "aof_current_size", "aof_buffer_length")
}
