package clickstream_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/storage/clickstream"
)

func TestConnect_ErrorDoesNotContainURL(t *testing.T) {
	for _, endpoint := range []clickstream.Endpoint{
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
		_, err := clickstream.Connect(endpoint)
		_, blockingErr := clickstream.ConnectBlocking(endpoint)
		for _, err := range []error{err, blockingErr, endpoint.Check()} {
			if err == nil || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the endpoint %v returned the error %v, want an error without hunter2", endpoint, err)
			}
		}
	}
}

// Parameters of the URL must not change the timeouts. The client for blocking reads must
// have a connection for each shard.
func TestConnect_IgnoresLimitsInURL(t *testing.T) {
	const tooLarge = "max_retries=9&dial_timeout=9s&read_timeout=9s&write_timeout=9s&pool_timeout=9s"
	for _, endpoint := range []clickstream.Endpoint{
		{URL: "redis://user:secret@host?" + tooLarge},
		{URL: "redis://host?master_name=a&username=user&password=secret&" + tooLarge, Kind: clickstream.Sentinel},
		{URL: "redis://user:secret@host?max_redirects=-1&" + tooLarge, Kind: clickstream.Cluster},
	} {
		for minPoolSize, client := range map[int]redis.UniversalClient{
			1:                     must[redis.UniversalClient](t)(clickstream.Connect(endpoint)),
			clickstream.MaxShards: must[redis.UniversalClient](t)(clickstream.ConnectBlocking(endpoint)),
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
				// The library changes MaxRetries -1 to 0 in the options of the other
				// clients. In the options of a Cluster client it stays -1.
				if all.MaxRetries != -1 || all.MaxRedirects != 3 {
					t.Errorf("got MaxRetries %d and MaxRedirects %d, want -1 and 3", all.MaxRetries, all.MaxRedirects)
				}
			}
			if o.MaxRetries != 0 || o.DialerRetries != 1 || !o.ContextTimeoutEnabled || o.PoolSize < minPoolSize || o.PoolSize > 100 || o.DialTimeout > 3*time.Second ||
				o.ReadTimeout != time.Second || o.WriteTimeout != time.Second || o.PoolTimeout != 250*time.Millisecond || o.Username != "user" || o.Password != "secret" {
				t.Errorf("the client for the kind %q has the options %+v, want the limits of the service and the user and password of the URL", endpoint.Kind, o)
			}
			if err := client.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
