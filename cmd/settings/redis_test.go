package settings_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/test/authority"
)

const (
	singleURL   = "redis://user:hunter2@redis.internal:6379/0"
	sentinelURL = "redis://sentinel.internal:26379/0?master_name=clicks&addr=other.internal:26379&password=hunter2"
	clusterURL  = "redis://user:hunter2@node1.internal:6379?addr=node2.internal:6379"
)

// collectorEnviron returns the environment of a collector with the given Redis and the
// given lines. If a name occurs twice, the later line is used.
func collectorEnviron(url string, lines ...string) []string {
	return append([]string{"TRIBUTARY_HASH_KEY=" + hashKey, "TRIBUTARY_REDIS_URL=" + url}, lines...)
}

func TestRedis_KindAndShards(t *testing.T) {
	for _, c := range []struct {
		name          string
		environ       []string
		stream, cache clickstream.Endpoint
		shards        int
	}{
		{
			"one server for both", collectorEnviron(singleURL),
			clickstream.Endpoint{URL: singleURL, Kind: clickstream.Single},
			clickstream.Endpoint{URL: singleURL, Kind: clickstream.Single},
			1,
		},
		{
			"sentinels for both", collectorEnviron(sentinelURL, "TRIBUTARY_CLICK_STREAM_REDIS=sentinel"),
			clickstream.Endpoint{URL: sentinelURL, Kind: clickstream.Sentinel},
			clickstream.Endpoint{URL: sentinelURL, Kind: clickstream.Sentinel},
			1,
		},
		{
			"a cluster for both", collectorEnviron(clusterURL, "TRIBUTARY_CLICK_STREAM_REDIS=cluster"),
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			16,
		},
		{
			"a cluster for the stream, one server for the cache", collectorEnviron(clusterURL, "TRIBUTARY_CLICK_STREAM_REDIS=cluster", "TRIBUTARY_CACHE_REDIS_URL="+singleURL),
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			clickstream.Endpoint{URL: singleURL, Kind: clickstream.Single},
			16,
		},
		{
			"one server for the stream, a cluster for the cache", collectorEnviron(singleURL, "TRIBUTARY_CACHE_REDIS_URL="+clusterURL, "TRIBUTARY_CACHE_REDIS=cluster"),
			clickstream.Endpoint{URL: singleURL, Kind: clickstream.Single},
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			1,
		},
		{
			"number of shards on a cluster", collectorEnviron(clusterURL, "TRIBUTARY_CLICK_STREAM_REDIS=cluster", "TRIBUTARY_STREAM_SHARDS=1"),
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			1,
		},
		{
			"number of shards on one server", collectorEnviron(singleURL, "TRIBUTARY_STREAM_SHARDS=64"),
			clickstream.Endpoint{URL: singleURL, Kind: clickstream.Single},
			clickstream.Endpoint{URL: singleURL, Kind: clickstream.Single},
			64,
		},
		{
			"0 shards on a cluster", collectorEnviron(clusterURL, "TRIBUTARY_CLICK_STREAM_REDIS=cluster", "TRIBUTARY_STREAM_SHARDS=0"),
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			clickstream.Endpoint{URL: clusterURL, Kind: clickstream.Cluster},
			16,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := settings.Parse[settings.Collector](c.environ)
			if err != nil {
				t.Fatal(err)
			}
			stream, cache := cfg.Stream(nil), cfg.Cache(nil)
			if !reflect.DeepEqual(stream, c.stream) || !reflect.DeepEqual(cache, c.cache) || cfg.StreamShards != c.shards {
				t.Errorf("got stream %v, cache %v and %d shards, want %v, %v and %d", stream, cache, cfg.StreamShards, c.stream, c.cache, c.shards)
			}
		})
	}
}

func TestRedis_ErrorNamesInvalidVariable(t *testing.T) {
	for _, c := range []struct {
		environ  []string
		variable string
	}{
		{collectorEnviron(sentinelURL), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron(clusterURL), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron(singleURL, "TRIBUTARY_CLICK_STREAM_REDIS=sentinel"), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron("redis://:hunter2@host:6379/3", "TRIBUTARY_CLICK_STREAM_REDIS=cluster"), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron(clusterURL+"&read_only=true", "TRIBUTARY_CLICK_STREAM_REDIS=cluster"), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron(sentinelURL+"&route_randomly=true", "TRIBUTARY_CLICK_STREAM_REDIS=sentinel"), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron("http://:hunter2@host"), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron("redis://:hunter2@host:port"), "TRIBUTARY_REDIS_URL"},
		{collectorEnviron(singleURL, "TRIBUTARY_CACHE_REDIS_URL="+clusterURL), "TRIBUTARY_CACHE_REDIS_URL"},
		{collectorEnviron(singleURL, "TRIBUTARY_CLICK_STREAM_REDIS=hunter2"), "TRIBUTARY_CLICK_STREAM_REDIS"},
		{collectorEnviron(singleURL, "TRIBUTARY_CACHE_REDIS=hunter2"), "TRIBUTARY_CACHE_REDIS"},
		{collectorEnviron(singleURL, "TRIBUTARY_STREAM_SHARDS=-1"), "TRIBUTARY_STREAM_SHARDS"},
	} {
		_, err := settings.Parse[settings.Collector](c.environ)
		switch {
		case err == nil:
			t.Errorf("%q was accepted", c.environ[1:])
		case !strings.HasPrefix(err.Error(), c.variable) || strings.Contains(err.Error(), "\n"):
			t.Errorf("%q: got the error %v, want only an error about %s", c.environ[1:], err, c.variable)
		case strings.Contains(err.Error(), "hunter2"):
			t.Errorf("the error contains the password: %v", err)
		}
	}
}

// The collector and the landing service read the variable with different types.
func TestRedis_AuthoritiesOfFile(t *testing.T) {
	path, ca := filepath.Join(t.TempDir(), "ca.pem"), authority.New(t)
	environ := collectorEnviron(singleURL, "TRIBUTARY_REDIS_CA_FILE="+path, "TRIBUTARY_DATABASE_URL=postgres://host/db")
	collector, err := settings.Parse[settings.Collector](environ)
	if err != nil {
		t.Fatal(err)
	}
	landing, err := settings.Parse[settings.Landing](environ)
	if err != nil {
		t.Fatal(err)
	}
	files := certificates.New(slog.New(slog.DiscardHandler))
	if _, err := collector.RedisRoots(files); err == nil || !strings.HasPrefix(err.Error(), "TRIBUTARY_REDIS_CA_FILE: ") {
		t.Errorf("a missing file returned the error %v", err)
	}
	if err := os.WriteFile(path, ca.Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	collectorRoots, err := collector.RedisRoots(files)
	if err != nil {
		t.Fatal(err)
	}
	landingRoots, err := landing.RedisRoots(files)
	if err != nil {
		t.Fatal(err)
	}
	for _, endpoint := range []clickstream.Endpoint{collector.Stream(collectorRoots), collector.Cache(collectorRoots), landing.Cache(landingRoots)} {
		if !endpoint.Roots().Equal(ca.Pool()) {
			t.Error("an endpoint does not have exactly the authorities of the file")
		}
	}
	collector.CAFile = ""
	if roots, err := collector.RedisRoots(files); roots != nil || err != nil {
		t.Errorf("without a file, RedisRoots returned authorities or the error %v", err)
	}
}
