package directory

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// State is the result of a look-up.
type State int

// The results of a look-up.
const (
	// Unknown means that Redis did not respond, or that the entry is missing and the
	// directory is not complete. It is unknown whether the entry exists.
	Unknown State = iota
	// Found means that the entry exists.
	Found
	// Absent means that the entry does not exist. An entry is absent if it has been
	// deleted, or if it is missing and the directory is complete.
	Absent
)

// lookupTimeout is the timeout of one read. The collector waits for at most two reads per
// look-up. Then it accepts the click without the entry.
const lookupTimeout = 250 * time.Millisecond

// Reader looks up entries. It caches usable entries: active codes, active links and keys
// that are not revoked. It reads all other entries from Redis each time, so that a new or
// activated entry works at once. A Reader is safe for concurrent use. The returned
// entries are shared with other callers and must not be changed.
type Reader struct {
	client  redis.UniversalClient
	cache   *cache
	lookups *lookups
}

// NewReader returns a Reader. The client must come from clickstream.Connect. If Run is
// not called, cached entries can be up to 30 seconds old.
func NewReader(client redis.UniversalClient, now func() time.Time) *Reader {
	return &Reader{client: client, cache: newCache(now), lookups: newLookups()}
}

// PublicKey looks up the workspace of a public key.
func (r *Reader) PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, State) {
	return lookup(ctx, r, publicKeyKey(digest), func(key *edgev1.PublicKeyEntry) bool { return !key.Revoked })
}

// ReferralCode looks up the programme and participant of a referral code. Codes are
// case-insensitive.
func (r *Reader) ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, State) {
	return lookup(ctx, r, referralCodeKey(scope, code), (*edgev1.ReferralCodeEntry).GetActive)
}

// Link looks up the target of a short link. The keys of links are case-sensitive.
func (r *Reader) Link(ctx context.Context, key string) (*edgev1.LinkEntry, State) {
	return lookup(ctx, r, linkKey(key), (*edgev1.LinkEntry).GetActive)
}

// SigningKeys looks up the public keys that verify access tokens.
func (r *Reader) SigningKeys(ctx context.Context) (*edgev1.SigningKeys, State) {
	return lookup(ctx, r, signingKeysKey, func(*edgev1.SigningKeys) bool { return true })
}

// lookup reads an entry from the cache or from Redis. It caches the entry if usable
// returns true.
func lookup[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, r *Reader, key string, usable func(M) bool) (M, State) {
	if value, ok := r.cache.get(key); ok {
		return value.(M), Found
	}
	value, state := r.lookups.do(key, func() (any, State) {
		// This read may have waited for an earlier read, which may have cached the entry.
		if value, ok := r.cache.get(key); ok {
			return value, Found
		}
		// Other requests may share the read, so it must not end when this request is
		// canceled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		generation := r.cache.generation()
		payload, state := r.fetch(ctx, key)
		if state != Found {
			return nil, state
		}
		entry := M(new(T))
		if proto.Unmarshal([]byte(payload), entry) != nil {
			return nil, Unknown
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
		return "", Unknown
	}
	if stored, ok := values[0].(string); ok {
		payload, present, ok := decode(stored)
		switch {
		case ok && present:
			return payload, Found
		case ok:
			return "", Absent
		}
		return "", Unknown
	}
	if values[1] == nil {
		return "", Unknown
	}
	return "", Absent
}

// resubscribeDelay is the pause between the end of a subscription and the start of the
// next subscription.
const resubscribeDelay = 500 * time.Millisecond

// Run subscribes to changes until ctx ends. It drops a cached entry when a change of the
// entry is published. The Reader does not receive messages that are published while it is
// not subscribed, so it drops its whole cache after each new subscription.
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
	subscription := r.client.Subscribe(ctx, changeChannel)
	defer func() { _ = subscription.Close() }()
	// The library pings an idle connection. If the connection is broken, it reconnects,
	// subscribes again and delivers a Subscription to the channel.
	messages := subscription.ChannelWithSubscriptions(redis.WithChannelHealthCheckInterval(3 * time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case message, open := <-messages:
			if !open {
				return
			}
			if m, ok := message.(*redis.Message); ok && m.Payload != dropAllMessage {
				r.cache.drop(m.Payload)
			} else {
				r.cache.dropAll()
			}
		}
	}
}
