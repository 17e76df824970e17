package visitors

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

func TestVisitorsOnEachKindOfRedis(t *testing.T) {
	t.Parallel()
	on := func(test func(*testing.T, redis.UniversalClient)) func(*testing.T, string, string) {
		return func(t *testing.T, url, kind string) {
			t.Helper()
			test(t, connectTo(t, url, kind))
		}
	}
	redistest.OnEachKind(
		t,
		redistest.Behaviour{Name: "a visitor is new after a day", Test: on(aVisitorIsNewAfterADay)},
		redistest.Behaviour{Name: "what is older or newer than a day", Test: on(aDayOfTimeCounts)},
		redistest.Behaviour{Name: "old days are dropped", Test: on(oldDaysAreDropped)},
		redistest.Behaviour{Name: "lost halves", Test: on(lostHalvesAreForgotten)},
		redistest.Behaviour{Name: "more visitors of a bucket than a call takes", Test: on(aBucketTakesSeveralCalls)},
		redistest.Behaviour{Name: "a bucket fails alone", Test: on(aBucketFailsAlone)},
		redistest.Behaviour{Name: "the script is forgotten", Test: func(t *testing.T, url, kind string) {
			t.Helper()
			if kind == string(clickstream.Single) { // whose scripts are other tests' too
				url = redistest.Start(t).URL
			}
			theScriptIsForgotten(t, connectTo(t, url, kind))
		}},
	)
}

func aVisitorIsNewAfterADay(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	first, second, third := click(0), click(1), click(2)
	mark(t, v, first)
	age(t, client, 24*time.Hour-time.Minute)
	// Coming back does not make the day longer.
	mark(t, v, second)
	repeated := *first
	if mark(t, v, &repeated); second.Unique || !repeated.Unique {
		t.Errorf("on the last minute of the day unique are %t, and the first %t", second.Unique, repeated.Unique)
	}
	age(t, client, time.Minute)
	if mark(t, v, third); !third.Unique {
		t.Error("not unique on the next day")
	}
	age(t, client, 24*time.Hour-time.Minute)
	repeated = *third
	if mark(t, v, second, &repeated); second.Unique || !repeated.Unique {
		t.Errorf("a day later unique are %t, and the third %t", second.Unique, repeated.Unique)
	}
}

// Time to come is that of a clock which has been set back.
func aDayOfTimeCounts(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	for since, known := range map[time.Duration]bool{
		0: true, time.Hour: true, 23 * time.Hour: true, 24 * time.Hour: false, 25 * time.Hour: false, 47 * time.Hour: false, 48 * time.Hour: false,
		72 * time.Hour: false, 30 * 24 * time.Hour: false, 365 * 24 * time.Hour: false,
		-time.Hour: true, -23 * time.Hour: true, -25 * time.Hour: false, -48 * time.Hour: false, -365 * 24 * time.Hour: false,
	} {
		ofThisCase := func(c *affiliate.Click) { c.ReferralCode = since.String() }
		first, second, again := click(0, ofThisCase), click(1, ofThisCase), click(2, ofThisCase)
		mark(t, v, first)
		age(t, client, since)
		mark(t, v, second)
		if mark(t, v, again); second.Unique == known || again.Unique {
			t.Errorf("%s later: unique are %t, %t", since, second.Unique, again.Unique)
		}
		forget(t, client)
	}
}

func oldDaysAreDropped(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	old := ofBucket(0, 3)
	mark(t, v, old...)
	for _, value := range stored(t, client) {
		if len(value.field) != fieldSize || len(value.value) != answerSize {
			t.Errorf("a visitor has %d bytes, and %d", len(value.field), len(value.value))
		}
	}
	for key := range hashes(t, client) {
		if left := client.TTL(t.Context(), key).Val(); left <= 47*time.Hour || left > 72*time.Hour {
			t.Errorf("%s lives for %s", key, left)
		}
		if encoding := client.ObjectEncoding(t.Context(), key).Val(); encoding != "hashtable" {
			t.Errorf("%s is a %s, in which a field is looked for from the front", key, encoding)
		}
	}
	age(t, client, 48*time.Hour)
	// To be asked again in the same hash is what drops it.
	mark(t, v, old[0])
	if kept := stored(t, client); len(kept) != 1 || !old[0].Unique {
		t.Errorf("%d visitors are kept, unique is %t", len(kept), old[0].Unique)
	}
}

func lostHalvesAreForgotten(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	for name, lose := range map[string]func(key string) error{
		"a hash":       func(key string) error { return client.Del(t.Context(), key).Err() },
		"its day":      func(key string) error { return client.HDel(t.Context(), key, "day").Err() },
		"its visitors": func(key string) error { return client.HDel(t.Context(), key, stored(t, client)[0].field).Err() },
	} {
		first, second := click(0), click(1)
		mark(t, v, first)
		for key := range hashes(t, client) {
			if err := lose(key); err != nil {
				t.Fatal(err)
			}
		}
		if mark(t, v, second); !second.Unique {
			t.Errorf("%s is lost: not unique", name)
		}
		if mark(t, v, first); first.Unique {
			t.Errorf("%s is lost: the new one is not kept", name)
		}
		if kept := len(stored(t, client)); kept != 1 {
			t.Errorf("%s is lost: %d visitors are kept", name, kept)
		}
		forget(t, client)
	}
}

func aBucketTakesSeveralCalls(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	// More than Lua passes on at once, too.
	first := ofBucket(3, 4001)
	second := make([]*affiliate.Click, len(first))
	for n, c := range first {
		second[n] = click(1, func(other *affiliate.Click) { other.IPHash = c.IPHash })
	}
	for range 2 {
		mark(t, v, append(append([]*affiliate.Click(nil), second...), first...)...)
		for n := range first {
			if !first[n].Unique || second[n].Unique {
				t.Fatalf("visitor %d: unique are %t, %t", n, first[n].Unique, second[n].Unique)
			}
		}
	}
	if kept := len(stored(t, client)); kept != len(first) {
		t.Errorf("%d visitors are kept", kept)
	}
}

func aBucketFailsAlone(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	const failing = 5
	for _, hash := range newCall(failing).keys {
		if err := client.Set(t.Context(), hash, "not a hash", 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	var clicks []*affiliate.Click
	for bucket := range byte(buckets) {
		clicks = append(clicks, ofBucket(bucket, 2)...)
	}
	if unknown := v.MarkUnique(t.Context(), clicks); unknown != 2 {
		t.Errorf("%d are unknown, want 2", unknown)
	}
	for n, c := range clicks {
		if c.Unique == (n/2 == failing) {
			t.Errorf("click %d of bucket %d: unique is %t", n%2, n/2, c.Unique)
		}
	}
}

func theScriptIsForgotten(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	v := New(client)
	var clicks []*affiliate.Click
	for bucket := range byte(buckets) {
		clicks = append(clicks, ofBucket(bucket, 2)...)
	}
	for range 3 {
		everywhere(t, client, func(ctx context.Context, server redis.UniversalClient) error { return server.ScriptFlush(ctx).Err() })
		mark(t, v, clicks...)
		for n, c := range clicks {
			if !c.Unique {
				t.Errorf("click %d is not unique", n)
			}
		}
	}
}

// The buckets of a dead node, or of one that hangs, are unknown, and no others.
func TestANodeOfAClusterFailsAlone(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(*redistest.Server){
		"it hangs":   (*redistest.Server).Pause,
		"it is gone": (*redistest.Server).Kill9,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.Cluster(t)
			v := New(connectTo(t, cluster.URL, string(clickstream.Cluster)))
			lost := map[int]bool{}
			var clicks []*affiliate.Click
			for bucket := range byte(buckets) {
				clicks = append(clicks, ofBucket(bucket, 1)...)
				lost[int(bucket)] = cluster.Owner(newCall(bucket).keys[0]) == cluster.Nodes[1]
			}
			mark(t, v, clicks...)
			away(cluster.Nodes[1])
			want := 0
			for bucket, c := range clicks {
				c.Unique = false
				if lost[bucket] {
					want++
				}
			}
			if unknown := v.MarkUnique(t.Context(), clicks); unknown != want || want == 0 || want == buckets {
				t.Errorf("%d are unknown, want %d", unknown, want)
			}
			for bucket, c := range clicks {
				if c.Unique == lost[bucket] {
					t.Errorf("bucket %d: unique is %t", bucket, c.Unique)
				}
			}
			if name == "it hangs" {
				cluster.Nodes[1].Resume()
			}
		})
	}
}

// ofBucket are clicks of so many visitors of one bucket.
func ofBucket(bucket byte, visitors int) (clicks []*affiliate.Click) {
	name := newCall(bucket).keys[0]
	for address := uint64(0); len(clicks) < visitors; address++ {
		c := click(0, func(c *affiliate.Click) { c.IPHash = binary.BigEndian.AppendUint64(nil, address) })
		if calls, _ := gather([]*affiliate.Click{c}); calls[0].keys[0] == name {
			clicks = append(clicks, c)
		}
	}
	return clicks
}

// kept is a visitor as Redis has it.
type kept struct{ key, field, value string }

func stored(t *testing.T, client redis.UniversalClient) (all []kept) {
	t.Helper()
	for key, fields := range hashes(t, client) {
		for field, value := range fields {
			if field != "day" && field != "pad" {
				all = append(all, kept{key, field, value})
			}
		}
	}
	return all
}

// hashes are all that Redis has.
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

func forget(t *testing.T, client redis.UniversalClient) {
	t.Helper()
	for key := range hashes(t, client) {
		if err := client.Del(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// age leaves what Redis would have if everything had been asked so much earlier.
func age(t *testing.T, client redis.UniversalClient, by time.Duration) {
	t.Helper()
	all := stored(t, client)
	forget(t, client)
	for _, k := range all {
		seconds := int64(binary.BigEndian.Uint32([]byte(k.value[tokenSize:]))) - int64(by/time.Second)
		day := seconds / 86400
		key := k.key[:len(k.key)-1] + strconv.FormatInt(day%2, 10)
		value := k.value[:tokenSize] + string(binary.BigEndian.AppendUint32(nil, uint32(seconds)))
		if err := client.HSet(t.Context(), key, "day", day, k.field, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// everywhere does something on every master.
func everywhere(t *testing.T, client redis.UniversalClient, do func(context.Context, redis.UniversalClient) error) {
	t.Helper()
	var err error
	if cluster, ok := client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error { return do(ctx, master) })
	} else {
		err = do(t.Context(), client)
	}
	if err != nil {
		t.Fatal(err)
	}
}
