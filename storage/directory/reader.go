package directory

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/singleflight"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// State is what a look-up knows.
type State int

// The three answers.
const (
	// Blind: Redis did not answer, or the directory is not complete and the
	// entry is not in it.
	Blind State = iota
	// Found: the entry is there.
	Found
	// Absent: the directory is complete and the entry is not in it.
	Absent
)

const (
	// cacheFor bounds how long a change can stay unseen when its message is lost.
	cacheFor = 30 * time.Second
	// cacheEntries bounds the cache; an entry takes some 300 bytes.
	cacheEntries = 50_000
	// lookupTimeout bounds what a click waits for the directory before it is
	// taken unresolved.
	lookupTimeout = 250 * time.Millisecond
)

// Reader looks up and remembers. It is safe for concurrent use. The entries it
// returns are shared and must not be changed.
type Reader struct {
	client  redis.UniversalClient
	cache   *cache
	flights singleflight.Group
}

// NewReader reads through a client of clickstream.Connect. Without Run it is
// right to within 30 seconds only.
func NewReader(client redis.UniversalClient, now func() time.Time) *Reader {
	return &Reader{client: client, cache: newCache(now)}
}

// PublicKey looks up whose a public key is.
func (r *Reader) PublicKey(ctx context.Context, digest [32]byte) (*edgev1.PublicKeyEntry, State) {
	var space [keySpace]byte
	return lookup[edgev1.PublicKeyEntry](ctx, r, appendPublicKeyKey(space[:0], digest))
}

// ReferralCode looks up what a code leads to; upper and lower case are one.
func (r *Reader) ReferralCode(ctx context.Context, scope affiliate.Scope, code string) (*edgev1.ReferralCodeEntry, State) {
	var space [keySpace]byte
	return lookup[edgev1.ReferralCodeEntry](ctx, r, appendReferralCodeKey(space[:0], scope, code))
}

// Link looks up where a short link leads; upper and lower case differ.
func (r *Reader) Link(ctx context.Context, key string) (*edgev1.LinkEntry, State) {
	var space [keySpace]byte
	return lookup[edgev1.LinkEntry](ctx, r, appendLinkKey(space[:0], key))
}

// SigningKeys looks up the public halves of the access token keys.
func (r *Reader) SigningKeys(ctx context.Context) (*edgev1.SigningKeys, State) {
	return lookup[edgev1.SigningKeys](ctx, r, []byte(signingKey))
}

func lookup[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, r *Reader, name []byte) (*T, State) {
	if value, ok := r.cache.get(name); ok {
		return cached[T](value)
	}
	return ask[T, M](ctx, r, string(name))
}

func ask[T any, M interface {
	*T
	proto.Message
}](ctx context.Context, r *Reader, key string) (*T, State) {
	// Requests for one key share one question, which outlives the request that
	// asked first.
	answer, err, _ := r.flights.Do(key, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		generation := r.cache.generation()
		payload, state, err := r.fetch(ctx, key)
		if err != nil || state == Blind {
			return nil, errBlind
		}
		var value any
		if state == Found {
			entry := M(new(T))
			if err := proto.Unmarshal([]byte(payload), entry); err != nil {
				return nil, errBlind
			}
			value = (*T)(entry)
		}
		r.cache.put(key, value, generation)
		return value, nil
	})
	if err != nil {
		return nil, Blind
	}
	return cached[T](answer)
}

var errBlind = errors.New("directory: blind")

func cached[T any](value any) (*T, State) {
	if value == nil {
		return nil, Absent
	}
	return value.(*T), Found
}

func (r *Reader) fetch(ctx context.Context, key string) (payload string, state State, err error) {
	values, err := r.client.MGet(ctx, key, markerKey).Result()
	if err != nil {
		return "", Blind, err
	}
	if stored, ok := values[0].(string); ok {
		payload, present, ok := decode(stored)
		switch {
		case ok && present:
			return payload, Found, nil
		case ok:
			return "", Absent, nil
		}
		return "", Blind, nil
	}
	if values[1] == nil {
		return "", Blind, nil
	}
	return "", Absent, nil
}

// Run listens for changes until ctx ends. Whenever the subscription begins or
// begins again the whole cache is dropped, because nobody knows what was
// published meanwhile.
func (r *Reader) Run(ctx context.Context) {
	for ctx.Err() == nil {
		r.listen(ctx)
		select {
		case <-ctx.Done():
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (r *Reader) listen(ctx context.Context) {
	subscription := r.client.Subscribe(ctx, channel)
	defer func() { _ = subscription.Close() }()
	// The library pings a silent connection, reconnects and resubscribes, and
	// hands over a Subscription each time.
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
				// Who asks from now on does not join a question of before.
				r.flights.Forget(m.Payload)
			} else {
				r.cache.dropAll()
			}
		}
	}
}
