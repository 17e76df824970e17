package clickstream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

func TestConnectDoesNotPrintThePassword(t *testing.T) {
	for _, at := range []clickstream.Endpoint{
		{URL: "redis://user:hunter2@host:notaport"},
		{URL: "hunter2"},
		{URL: "redis://user:hunter2@host", Kind: clickstream.Sentinel},
		{URL: "redis://user:hunter2@host?master_name=a&addr=noport", Kind: clickstream.Sentinel},
		{URL: "redis://user:hunter2@host?master_name=a&hunter2=b", Kind: clickstream.Sentinel},
		{URL: "redis://user:hunter2@host?master_name=a&replica_only=true", Kind: clickstream.Sentinel},
		{URL: "redis://user:hunter2@host?addr=hunter2", Kind: clickstream.Cluster},
		{URL: "redis://user:hunter2@host/1", Kind: clickstream.Cluster},
		{URL: "redis://user:hunter2@host?route_by_latency=true", Kind: clickstream.Cluster},
		{URL: "redis://user:hunter2@host", Kind: "hunter2"},
	} {
		_, err := clickstream.Connect(at)
		_, blocking := clickstream.ConnectBlocking(at)
		for _, err := range []error{err, blocking, at.Check()} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%v: %v", at, err)
			}
		}
	}
}

// Whatever a URL says, a client of a request's path has the bounds of RELIABILITY.md
// section 2, and the one that blocks has room for every shard.
func TestClientsAreBounded(t *testing.T) {
	const wild = "max_retries=9&dial_timeout=9s&read_timeout=9s&write_timeout=9s&pool_timeout=9s"
	for _, at := range []clickstream.Endpoint{
		{URL: "redis://user:secret@host?" + wild},
		{URL: "redis://host?master_name=a&username=user&password=secret&" + wild, Kind: clickstream.Sentinel},
		{URL: "redis://user:secret@host?max_redirects=-1&" + wild, Kind: clickstream.Cluster},
	} {
		for room, client := range map[int]redis.UniversalClient{
			1:                     must[redis.UniversalClient](t)(clickstream.Connect(at)),
			clickstream.MaxShards: must[redis.UniversalClient](t)(clickstream.ConnectBlocking(at)),
		} {
			var o redis.Options
			switch c := client.(type) {
			case *redis.Client:
				o = *c.Options()
			case *redis.ClusterClient:
				all := c.Options()
				o = redis.Options{
					Username: all.Username, Password: all.Password, DialTimeout: all.DialTimeout, DialerRetries: all.DialerRetries,
					ReadTimeout: all.ReadTimeout, WriteTimeout: all.WriteTimeout, PoolTimeout: all.PoolTimeout, PoolSize: all.PoolSize,
					ContextTimeoutEnabled: all.ContextTimeoutEnabled,
				}
				// The library keeps -1 here, and makes it 0 above.
				if all.MaxRetries != -1 || all.MaxRedirects != 3 {
					t.Errorf("%d retries, %d redirections", all.MaxRetries, all.MaxRedirects)
				}
			}
			if o.MaxRetries != 0 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || o.PoolSize < room || o.PoolSize > 100 || o.DialTimeout > 3*time.Second ||
				o.ReadTimeout != time.Second || o.WriteTimeout != time.Second || o.PoolTimeout != 250*time.Millisecond || o.Username != "user" || o.Password != "secret" {
				t.Errorf("%s: %+v", at.Kind, o)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
