package clickstream_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestCheckDurability(t *testing.T) {
	t.Parallel()
	const notDurable, notChecked = "may lose acknowledged clicks", "cannot check"
	for name, c := range map[string]struct {
		prepare []string // a Redis command that changes the server
		user    string   // user and password for the URL
		want    string   // text of the warning; empty if there must be none
	}{
		"appendfsync always":      {want: ""},
		"appendfsync everysec":    {prepare: []string{"config", "set", "appendfsync", "everysec"}, want: notDurable},
		"no append-only file":     {prepare: []string{"config", "set", "appendonly", "no"}, want: notDurable},
		"CONFIG is not permitted": {prepare: []string{"acl", "setuser", "edge", "on", ">pw", "~*", "&*", "+@all", "-config"}, user: "edge:pw@", want: notChecked},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			if c.prepare != nil {
				args := make([]any, len(c.prepare))
				for i, arg := range c.prepare {
					args[i] = arg
				}
				must[any](t)(connect(t, clickstream.Endpoint{URL: server.URL}).Do(t.Context(), args...).Result())
			}
			client := connect(t, clickstream.Endpoint{URL: strings.Replace(server.URL, "redis://", "redis://"+c.user, 1)})
			var log bytes.Buffer
			clickstream.CheckDurability(t.Context(), client, slog.New(slog.NewTextHandler(&log, nil)))
			if line := log.String(); line != "" != (c.want != "") || !strings.Contains(line, c.want) || line != "" && !strings.Contains(line, "level=WARN") {
				t.Errorf("CheckDurability logged %q, want a warning that contains %q (no log if empty)", line, c.want)
			}
		})
	}
}

func TestCheckDurability_ChecksEachMasterOfCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := connect(t, clickstream.Endpoint{URL: cluster.URL, Kind: clickstream.Cluster})
	owner := connect(t, clickstream.Endpoint{URL: cluster.Owner(clickstream.Key(7)).URL})
	must[string](t)(owner.ConfigSet(t.Context(), "appendfsync", "no").Result())
	var log bytes.Buffer
	clickstream.CheckDurability(t.Context(), client, slog.New(slog.NewTextHandler(&log, nil)))
	if strings.Count(log.String(), "level=WARN") != 1 {
		t.Errorf("CheckDurability logged %q, want one warning", log.String())
	}
}

// The collector and the core (the API server) can start before Redis, so the check must
// wait for Redis.
func TestCheckDurability_WaitsForRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := connect(t, clickstream.Endpoint{URL: server.URL})
	refused := make(chan struct{})
	var once sync.Once
	client.AddHook(onError(func() { once.Do(func() { close(refused) }) }))
	server.Kill9()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	checked := make(chan struct{})
	var log bytes.Buffer
	go func() {
		defer close(checked)
		clickstream.CheckDurability(ctx, client, slog.New(slog.NewTextHandler(&log, nil)))
	}()
	<-refused
	server.Restart()
	<-checked
	if log.Len() != 0 {
		t.Errorf("CheckDurability logged %q, want nothing", log.String())
	}
}

// onError is a Redis hook that calls a function after each failed command.
type onError func()

func (onError) DialHook(next redis.DialHook) redis.DialHook { return next }

func (onError) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (f onError) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		err := next(ctx, command)
		if err != nil {
			f()
		}
		return err
	}
}
