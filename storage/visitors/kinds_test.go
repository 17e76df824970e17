package visitors

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate/click"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestVisitorsOnEachKindOfRedis(t *testing.T) {
	t.Parallel()
	withClient := func(test func(*testing.T, redis.UniversalClient)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			test(t, connectTo(t, url, kind))
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "visitor is new after a day", Test: withClient(testVisitorIsNewAfterADay)},
		redistest.Behaviour{Name: "visitors stored earlier or later", Test: withClient(testStoredVisitorsOfOtherTimes)},
		redistest.Behaviour{Name: "old days are deleted", Test: withClient(testOldDaysAreDeleted)},
		redistest.Behaviour{Name: "hash is lost in whole or in part", Test: withClient(testPartlyLostHash)},
		redistest.Behaviour{Name: "large bucket needs several calls", Test: withClient(testBucketNeedsSeveralCalls)},
		redistest.Behaviour{Name: "only clicks of the failed bucket are unknown", Test: withClient(testBucketFailsAlone)},
		redistest.Behaviour{Name: "script flush", Test: func(t *testing.T, url, kind string) {
			t.Helper()
			if kind == string(clickstream.Single) { // the single server is shared with other tests
				url = redistest.Start(t).URL
			}
			testScriptFlush(t, connectTo(t, url, kind))
		}},
	)
}

func testVisitorIsNewAfterADay(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	first, second, third := newClick(0), newClick(1), newClick(2)
	mark(t, v, first)
	makeOlder(t, client, 24*time.Hour-time.Minute)
	// A second click must not extend the 24 hours.
	mark(t, v, second)
	repeated := *first
	if mark(t, v, &repeated); second.Unique || !repeated.Unique {
		t.Errorf("in the last minute of the 24 hours, Unique is %t for the second click and %t for the first, want false and true", second.Unique, repeated.Unique)
	}
	makeOlder(t, client, time.Minute)
	if mark(t, v, third); !third.Unique {
		t.Error("the first click after 24 hours is not unique")
	}
	makeOlder(t, client, 24*time.Hour-time.Minute)
	repeated = *third
	if mark(t, v, second, &repeated); second.Unique || !repeated.Unique {
		t.Errorf("almost a day later, Unique is %t for the second click and %t for the third, want false and true", second.Unique, repeated.Unique)
	}
}

// A visitor is known if the stored time is less than 24 hours before or after the current
// time. It can be after the current time, because the clock may have been set back.
func testStoredVisitorsOfOtherTimes(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	for since, known := range map[time.Duration]bool{
		0: true, time.Hour: true, 23 * time.Hour: true, 24 * time.Hour: false, 25 * time.Hour: false, 47 * time.Hour: false, 48 * time.Hour: false,
		72 * time.Hour: false, 30 * 24 * time.Hour: false, 365 * 24 * time.Hour: false,
		-time.Hour: true, -23 * time.Hour: true, -25 * time.Hour: false, -48 * time.Hour: false, -365 * 24 * time.Hour: false,
	} {
		// Each case has its own referral code and therefore its own visitor.
		codeOfCase := func(c *click.Click) { c.ReferralCode = since.String() }
		first, second, third := newClick(0, codeOfCase), newClick(1, codeOfCase), newClick(2, codeOfCase)
		mark(t, v, first)
		makeOlder(t, client, since)
		mark(t, v, second)
		if mark(t, v, third); second.Unique == known || third.Unique {
			t.Errorf("%s later, Unique is %t for the second click and %t for the third, want %t and false", since, second.Unique, third.Unique, !known)
		}
		deleteAll(t, client)
	}
}

func testOldDaysAreDeleted(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	old := clicksOfBucket(0, 3)
	mark(t, v, old...)
	for _, visitor := range storedVisitors(t, client) {
		if len(visitor.field) != fieldSize || len(visitor.value) != valueSize {
			t.Errorf("a visitor has a field of %d bytes and a value of %d bytes, want %d and %d", len(visitor.field), len(visitor.value), fieldSize, valueSize)
		}
	}
	for key := range hashes(t, client) {
		if ttl := client.TTL(t.Context(), key).Val(); ttl <= 47*time.Hour || ttl > 72*time.Hour {
			t.Errorf("%s expires after %s, want 47 h to 72 h", key, ttl)
		}
		if encoding := client.ObjectEncoding(t.Context(), key).Val(); encoding != "hashtable" {
			t.Errorf("the encoding of %s is %s, want hashtable", key, encoding)
		}
	}
	makeOlder(t, client, 48*time.Hour)
	// The next write to the same hash deletes the visitors of the old day.
	mark(t, v, old[0])
	if visitors := storedVisitors(t, client); len(visitors) != 1 || !old[0].Unique {
		t.Errorf("%d visitors are stored and Unique is %t, want 1 and true", len(visitors), old[0].Unique)
	}
}

func testPartlyLostHash(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	for name, deletePart := range map[string]func(key string) error{
		"whole hash": func(key string) error { return client.Del(t.Context(), key).Err() },
		"field day":  func(key string) error { return client.HDel(t.Context(), key, "day").Err() },
		"visitor":    func(key string) error { return client.HDel(t.Context(), key, storedVisitors(t, client)[0].field).Err() },
	} {
		first, second := newClick(0), newClick(1)
		mark(t, v, first)
		for key := range hashes(t, client) {
			if err := deletePart(key); err != nil {
				t.Fatal(err)
			}
		}
		if mark(t, v, second); !second.Unique {
			t.Errorf("after the loss of the %s, the next click is not unique", name)
		}
		if mark(t, v, first); first.Unique {
			t.Errorf("after the loss of the %s, the visitor of the next click was not stored", name)
		}
		if n := len(storedVisitors(t, client)); n != 1 {
			t.Errorf("after the loss of the %s, %d visitors are stored, want 1", name, n)
		}
		deleteAll(t, client)
	}
}

func testBucketNeedsSeveralCalls(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	// One call of the script could not process so many visitors, because of a limit of
	// Lua.
	first := clicksOfBucket(3, 4001)
	second := make([]*click.Click, len(first))
	for n, c := range first {
		second[n] = newClick(1, func(other *click.Click) { other.IPHash = c.IPHash })
	}
	for range 2 {
		mark(t, v, append(append([]*click.Click(nil), second...), first...)...)
		for n := range first {
			if !first[n].Unique || second[n].Unique {
				t.Fatalf("visitor %d: Unique is %t for the first click and %t for the second, want true and false", n, first[n].Unique, second[n].Unique)
			}
		}
	}
	if n := len(storedVisitors(t, client)); n != len(first) {
		t.Errorf("%d visitors are stored, want %d", n, len(first))
	}
}

func testBucketFailsAlone(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	const failing = 5
	for _, hash := range newCall(failing).keys {
		if err := client.Set(t.Context(), hash, "not a hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var clicks []*click.Click
	for bucket := range byte(buckets) {
		clicks = append(clicks, clicksOfBucket(bucket, 2)...)
	}
	if unknown := v.MarkUnique(t.Context(), clicks); unknown != 2 {
		t.Errorf("%d clicks are unknown, want 2", unknown)
	}
	for n, c := range clicks {
		if c.Unique == (n/2 == failing) {
			t.Errorf("click %d of bucket %d: Unique is %t, want %t", n%2, n/2, c.Unique, !c.Unique)
		}
	}
}

func testScriptFlush(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	var clicks []*click.Click
	for bucket := range byte(buckets) {
		clicks = append(clicks, clicksOfBucket(bucket, 2)...)
	}
	for range 3 {
		onEachMaster(t, client, func(ctx context.Context, server redis.UniversalClient) error { return server.ScriptFlush(ctx).Err() })
		mark(t, v, clicks...)
		for n, c := range clicks {
			if !c.Unique {
				t.Errorf("after SCRIPT FLUSH, click %d is not unique", n)
			}
		}
	}
}

// If a node of a cluster hangs or is dead, only the clicks of its buckets are unknown.
func TestMarkUnique_OnlyBucketsOfFailedNodeAreUnknown(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*redistest.Server){
		"node hangs":   (*redistest.Server).Pause,
		"node is dead": (*redistest.Server).Kill9,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			v := New(connectTo(t, cluster.URL, string(clickstream.Cluster)))
			failed := map[int]bool{} // buckets of the failed node
			var clicks []*click.Click
			for bucket := range byte(buckets) {
				clicks = append(clicks, clicksOfBucket(bucket, 1)...)
				failed[int(bucket)] = cluster.Owner(newCall(bucket).keys[0]) == cluster.Nodes[1]
			}
			mark(t, v, clicks...)
			fail(cluster.Nodes[1])
			want := 0
			for bucket, c := range clicks {
				c.Unique = false
				if failed[bucket] {
					want++
				}
			}
			if unknown := v.MarkUnique(t.Context(), clicks); unknown != want || want == 0 || want == buckets {
				t.Errorf("%d clicks are unknown, want %d, which must be some of %d but not all", unknown, want, buckets)
			}
			for bucket, c := range clicks {
				if c.Unique == failed[bucket] {
					t.Errorf("bucket %d: Unique is %t, want %t", bucket, c.Unique, !failed[bucket])
				}
			}
			if name == "node hangs" {
				cluster.Nodes[1].Resume()
			}
		})
	}
}

// clicksOfBucket returns clicks of different visitors that are all in the given bucket.
func clicksOfBucket(bucket byte, visitors int) (clicks []*click.Click) {
	name := newCall(bucket).keys[0]
	for address := uint64(0); len(clicks) < visitors; address++ {
		c := newClick(0, func(c *click.Click) { c.IPHash = binary.BigEndian.AppendUint64(nil, address) })
		if calls, _ := newCalls([]*click.Click{c}); calls[0].keys[0] == name {
			clicks = append(clicks, c)
		}
	}
	return clicks
}

// storedVisitor is a visitor in a hash of Redis.
type storedVisitor struct{ key, field, value string }

// storedVisitors returns all stored visitors.
func storedVisitors(t *testing.T, client redis.UniversalClient) (all []storedVisitor) {
	t.Helper()
	for key, fields := range hashes(t, client) {
		for field, value := range fields {
			if field != "day" && field != "pad" { // all other fields are visitors
				all = append(all, storedVisitor{key, field, value})
			}
		}
	}
	return all
}

// hashes returns the hashes of all buckets by key.
func hashes(t *testing.T, client redis.UniversalClient) map[string]map[string]string {
	t.Helper()
	all := map[string]map[string]string{}
	for bucket := range byte(buckets) {
		for _, key := range newCall(bucket).keys {
			fields, err := client.HGetAll(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			if len(fields) > 0 {
				all[key] = fields
			}
		}
	}
	return all
}

func deleteAll(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for key := range hashes(t, client) {
		if err := client.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// makeOlder moves the time of each stored visitor back by the given duration.
func makeOlder(t *testing.T, client redis.UniversalClient, duration time.Duration) {
	t.Helper()
	all := storedVisitors(t, client)
	deleteAll(t, client)
	for _, v := range all {
		seconds := int64(binary.BigEndian.Uint32([]byte(v.value[tokenSize:]))) - int64(duration/time.Second)
		day := seconds / 86400
		key := v.key[:len(v.key)-1] + strconv.FormatInt(day%2, 10)
		value := v.value[:tokenSize] + string(binary.BigEndian.AppendUint32(nil, uint32(seconds)))
		if err := client.HSet(t.Context(), key, "day", day, v.field, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// onEachMaster calls action for the server, or for each master of a cluster.
func onEachMaster(t *testing.T, client redis.UniversalClient, action func(context.Context, redis.UniversalClient) error) {
	t.Helper()
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return action(ctx, master) })
	} else {
		err = action(t.Context(), client)
	}
	if err != nil {
		t.Fatal(err)
	}
}
