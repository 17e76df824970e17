package directory

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// State is the outcome of a look-up.
type State int

// The outcomes.
const (
	// Blind: Redis did not answer, or the entry is not there and the directory is
	// not complete.
	Blind State = iota
	// Found: the entry is there.
	Found
	// Absent: the directory is complete and the entry is not in it.
	Absent
)

// lookupTimeout bounds one read. A click waits for two reads at most, then it is
// accepted unresolved.
const lookupTimeout = 250 * time.Millisecond

// Reader looks up entries and caches those that can be used: active codes and
// links, keys that are not revoked. Absent and inactive entries are read from Redis
// each time, so that an entry works as soon as Redis has it. Reader is safe for
// concurrent use. The entries it returns are shared and must not be changed.
type Reader struct {
	client  redis.UniversalClient
	cache   *cache
	lookups *lookups
}

// NewReader reads through a client of clickstream.Connect. Without Run, a cached
// entry can be 30 seconds old.
func NewReader(client redis.UniversalClient, now func() time.Time) *Reader {
	return &Reader{client: client, cache: newCache(now), lookups: newLookups()}
}

// PublicKey looks up the workspace of a public key.
func (r *Reader) PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, State) {
	return lookup(ctx, r, publicKeyKey(digest), func(key *edgev1.PublicKeyEntry) bool { return !key.Revoked })
}

// ReferralCode looks up the programme and participant of a code. Codes are
// case-insensitive.
func (r *Reader) ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, State) {
	return lookup(ctx, r, referralCodeKey(scope, code), (*edgev1.ReferralCodeEntry).GetActive)
}

// Link looks up the target of a short link. Keys of links are case-sensitive.
func (r *Reader) Link(ctx context.Context, key string) (*edgev1.LinkEntry, State) {
	return lookup(ctx, r, linkKey(key), (*edgev1.LinkEntry).GetActive)
}

// SigningKeys looks up the public halves of the access token keys.
func (r *Reader) SigningKeys(ctx context.Context) (*edgev1.SigningKeys, State) {
	return lookup(ctx, r, signingKey, func(*edgev1.SigningKeys) bool { return true })
}

// lookup reads an entry from the cache or from Redis. It caches an entry that
// usable accepts.
func lookup[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, r *Reader, key string, usable func(M) bool) (M, State) {
	if value, ok := r.cache.get(key); ok {
		return value.(M), Found
	}
	value, state := r.lookups.do(key, func() (any, State) {
		// The read that this one waited for may have cached the entry.
		if value, ok := r.cache.get(key); ok {
			return value, Found
		}
		// Other requests may share the read, so it outlives this request.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		generation := r.cache.generation()
		payload, state := r.fetch(ctx, key)
		if state != Found {
			return nil, state
		}
		entry := M(new(T))
		if proto.Unmarshal([]byte(payload), entry) != nil {
			return nil, Blind
		}
		if usable(entry) {
			r.cache.put(key, entry, generation)
		}
		return entry, Found
	})
	if state != Found {
		return nil, state
	}
	return value.(M), Found
}

func (r *Reader) fetch(ctx context.Context, key string) (payload string, state State) {
	values, err := r.client.MGet(ctx, key, markerKey).Result()
	if err != nil {
		return "", Blind
	}
	if stored, ok := values[0].(string); ok {
		payload, present, ok := decode(stored)
		switch {
		case ok && present:
			return payload, Found
		case ok:
			return "", Absent
		}
		return "", Blind
	}
	if values[1] == nil {
		return "", Blind
	}
	return "", Absent
}

// resubscribeDelay is the pause after a subscription that ended.
const resubscribeDelay = 500 * time.Millisecond

// Run drops cached entries when a change of them is published, until ctx ends.
// Messages that were published while no subscription existed are lost, so each new
// subscription drops the whole cache.
func (r *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.listen(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(resubscribeDelay):
		}
	}
}

func (r *Reader) listen(ctx context.Context) {
	subscription := r.client.Subscribe(ctx, channel)
	defer func() { _ = subscription.Close() }()
	// The library pings a silent connection, reconnects and subscribes again. It
	// delivers a Subscription each time.
	messages := subscription.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(3 * time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case message, open := <-messages:
			if !open {
				return
			}
			if m, ok := message.(*redis.Message); ok && m.Payload != everything {
				r.cache.drop(m.Payload)
			} else {
				r.cache.dropAll()
			}
		}
	}
}
