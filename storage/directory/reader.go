package directory

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/inflight"
)

// State is the result of a look-up.
type State int

// The results of a look-up.
const (
	// Unknown means that Redis did not respond, or that the entry is missing and the directory
	// is not complete. It is unknown whether the entry exists. Link returns Unknown only if the
	// Reader also has no last known state of the link.
	Unknown State = iota
	// Found means that the entry exists.
	Found
	// Absent means that the entry does not exist. An entry is absent if it has been
	// deleted, or if it is missing and the directory is complete.
	Absent
)

// lookupTimeout is the timeout of one shared look-up. The collector waits for at most two of
// them: a running one and its own. Then it accepts the click without the entry.
const lookupTimeout = 250 * time.Millisecond

// Reader looks up entries. It caches usable entries: active codes, active links and keys
// that are not revoked. It reads all other entries from Redis each time, so that a new or
// activated entry works at once. It keeps the last known state of links for times in which
// Redis cannot be read. A Reader is safe for concurrent use. The returned entries are shared
// with other callers and must not be changed.
type Reader struct {
	client  redis.UniversalClient
	cache   *cache // keys and codes
	links   *cache
	lookups inflight.Group[lookupResult]
}

// NewReader returns a Reader. The client must come from clickstream.Connect. If Run is
// not called, cached entries can be up to 30 seconds old.
func NewReader(client redis.UniversalClient, now func() time.Time) *Reader {
	return &Reader{
		client: client,
		cache:  newCache(now, maxCacheEntries, 0), links: newCache(now, maxCacheLinks, maxLinkAge),
	}
}

// PublicKey looks up the workspace of a public key.
func (r *Reader) PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, State) {
	return lookup(ctx, r, r.cache, publicKeyKey(digest), func(key *edgev1.PublicKeyEntry) bool { return !key.Revoked })
}

// ReferralCode looks up the programme and participant of a referral code. Codes are
// case-insensitive.
func (r *Reader) ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, State) {
	return lookup(ctx, r, r.cache, referralCodeKey(scope, code), (*edgev1.ReferralCodeEntry).GetActive)
}

// Link looks up the target of a short link. The keys of links are case-sensitive. If Redis does
// not respond, or the directory is being rebuilt, Link returns the last known state of an
// active link, if it was read at most 24 hours ago.
func (r *Reader) Link(ctx context.Context, key string) (*edgev1.LinkEntry, State) {
	entry, state := lookup(ctx, r, r.links, linkKey(key), (*edgev1.LinkEntry).GetActive)
	if state == Unknown {
		if known, ok := r.links.lastKnown(linkKey(key)); ok {
			return known.(*edgev1.LinkEntry), Found
		}
	}
	return entry, state
}

// SigningKeys looks up the public keys that verify access tokens.
func (r *Reader) SigningKeys(ctx context.Context) (*edgev1.SigningKeys, State) {
	return lookup(ctx, r, r.cache, signingKeysKey, func(*edgev1.SigningKeys) bool { return true })
}

// HashKeys reads the fingerprints of the hash keys of the core from Redis. It has no timeout
// other than ctx and caches nothing, because it is called once a minute at most.
func (r *Reader) HashKeys(ctx context.Context) (*edgev1.HashKeys, State) {
	keys, state, _ := read(ctx, r, r.cache, hashKeysKey, func(*edgev1.HashKeys) bool { return false })
	return keys, state
}

// lookupResult is the result of a look-up that several requests share.
type lookupResult struct {
	value any
	state State
}

var errUnknown = errors.New("the state of the entry is unknown")

// lookup reads an entry from the cache or from Redis. It caches the entry if usable returns
// true. If the entry is unusable or absent, it removes an earlier state from the cache.
func lookup[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, r *Reader, cache *cache, key string, usable func(M) bool) (M, State) {
	if value, ok := cache.get(key); ok {
		return value.(M), Found
	}
	result, _, err := r.lookups.Do(key, func(int64) (lookupResult, error) {
		// This read may have waited for an earlier read, which may have cached the entry.
		if value, ok := cache.get(key); ok {
			return lookupResult{value, Found}, nil
		}
		// Other requests may share the read, so it must not end when this request is
		// canceled.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		entry, state, stored := read(ctx, r, cache, key, usable)
		if !stored {
			// An entry changed during the read, so the result was not cached. The second read
			// caches it, so that the Reader has a last known state of a link.
			if again, newer, _ := read(ctx, r, cache, key, usable); newer != Unknown {
				entry, state = again, newer
			}
		}
		if state == Unknown {
			return lookupResult{}, errUnknown
		}
		return lookupResult{entry, state}, nil
	})
	if err != nil || result.state != Found {
		return nil, result.state
	}
	return result.value.(M), Found
}

// read reads an entry from Redis and updates the cache. stored is false if the entry was not
// cached because an entry was dropped during the read.
func read[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, r *Reader, cache *cache, key string, usable func(M) bool) (entry M, state State, stored bool) {
	generation := cache.generation()
	payload, state := r.fetch(ctx, key)
	if state == Found {
		entry = M(new(T))
		if proto.Unmarshal([]byte(payload), entry) != nil {
			return nil, Unknown, true
		}
		if usable(entry) {
			return entry, Found, cache.put(key, entry, generation)
		}
	}
	if state != Unknown {
		cache.remove(key)
	}
	return entry, state, true
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

const resubscribeDelay = 500 * time.Millisecond

// Run subscribes to changes until ctx ends. It drops a cached entry when a change of the entry
// is published. The Reader does not receive messages that are published while it is not
// subscribed, so after each new subscription it expires all cached entries.
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
				r.dropChanged(ctx, m.Payload)
			} else {
				r.cache.expireAll()
				r.links.expireAll()
			}
		}
	}
}

// dropChanged drops an entry that has changed. It reads a cached link again, so that its new
// state is known if Redis stops responding before the next visit.
func (r *Reader) dropChanged(ctx context.Context, key string) {
	r.cache.drop(key)
	if r.links.drop(key) {
		r.Link(ctx, strings.TrimPrefix(key, linkKey("")))
	}
}
