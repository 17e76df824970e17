package collector

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

type keyStatus int

const (
	// keyInvalid means that there is no key, or that it is malformed, does not exist or
	// has expired.
	keyInvalid keyStatus = iota
	// keyWrongKind means that the credential is a well-formed key of another kind or a
	// valid access token. These credentials must not register clicks.
	keyWrongKind
	// keyUnverified means that the checksum of the key is correct, but the directory
	// cannot be read.
	keyUnverified
	// keyValid means that the public key is valid. apiCaller.scope is then the workspace
	// and the mode of the key.
	keyValid
)

type apiCaller struct {
	status keyStatus
	parsedKey
	scope affiliate.Scope
	// entry is the directory entry of a valid key.
	entry *edgev1.PublicKeyEntry
}

// parsedKey is a well-formed key with values that are computed from its text.
type parsedKey struct {
	key    account.Key
	digest [32]byte
	// subject is the digest as a string. The rate limiter counts the requests with this
	// key under this name.
	subject string
}

func newParsedKey(key account.Key) parsedKey {
	digest := key.Digest()
	return parsedKey{key: key, digest: digest, subject: string(digest[:])}
}

// maxCachedKeys bounds the cache of parsed keys. An entry takes about 350 bytes.
const maxCachedKeys = 10_000

// keyCache caches keys that the directory contains, so that their checksums and digests
// are not computed with every click. Every click still looks up whether the key is valid.
// Keys that do not exist are not cached, so they cannot evict others.
type keyCache struct{ *lru.Cache[string, parsedKey] }

func newKeyCache() keyCache { return keyCache{newCache[string, parsedKey](maxCachedKeys)} }

func (c keyCache) add(text string) {
	// Store a copy, because text may be part of a body. Otherwise the cache would keep
	// the whole body in memory.
	if key, ok := account.ParseKey(strings.Clone(text)); ok {
		c.Add(key.Reveal(), newParsedKey(key))
	}
}

// newCache returns a cache for values that are costly to compute. The callers read it with
// Peek, which needs no exclusive lock and does not change the order of the entries. So a full
// cache evicts the entry that was added first.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, _ := lru.New[K, V](size) // fails only if size is not positive
	return cache
}

// headerCredential returns the credential from the headers. If present is false, the
// headers contain no credential, but the body may contain a public key.
func headerCredential(h http.Header) (text string, present bool) {
	if authorization := h.Get("Authorization"); authorization != "" {
		scheme, token, _ := strings.Cut(authorization, " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return "", true
		}
		return strings.TrimSpace(token), true
	}
	text = h.Get("X-Public-Key")
	return text, text != ""
}

func (c *Collector) identify(ctx context.Context, text string) apiCaller {
	var caller apiCaller
	var cached bool
	if caller.parsedKey, cached = c.keys.Peek(text); !cached {
		key, ok := account.ParseKey(text)
		switch {
		case !ok:
			if !account.LooksLikeKey(text) && c.validToken(ctx, text) {
				return apiCaller{status: keyWrongKind}
			}
			return apiCaller{}
		case key.Kind != account.PublicKey:
			return apiCaller{status: keyWrongKind}
		}
		caller.parsedKey = newParsedKey(key)
	}
	entry, state := c.deps.Directory.PublicKey(ctx, caller.digest)
	switch {
	case state == directory.Unknown:
		caller.status = keyUnverified
	case state == directory.Found && entry.Mode == edgeMode(caller.key.Mode) && c.keyActive(entry):
		workspace, ok := affiliate.IDFromBytes[affiliate.WorkspaceID](entry.WorkspaceId)
		if ok {
			caller.status, caller.scope, caller.entry = keyValid, affiliate.Scope{Workspace: workspace, Mode: caller.key.Mode}, entry
		}
		if !cached {
			c.keys.add(text)
		}
	}
	return caller
}

// keyActive reports whether a key is valid now. A rolled key is valid until ExpiresAtMs, also
// if the core has not set Revoked in the directory yet.
func (c *Collector) keyActive(entry *edgev1.PublicKeyEntry) bool {
	return !entry.Revoked && (entry.ExpiresAtMs == 0 || c.deps.Now().UnixMilli() < entry.ExpiresAtMs)
}

// foreignOrigin reports whether the request comes from a page whose origin the workspace
// does not allow. Requests of servers have no Origin header. For them it returns false, unless
// the workspace requires an origin. The origin "null", which some pages send instead of their
// own, is not allowed.
func (c apiCaller) foreignOrigin(h http.Header) bool {
	if c.entry == nil || len(c.entry.AllowedOrigins) == 0 {
		return false
	}
	origin := h.Get("Origin")
	if origin == "" {
		return c.entry.RequireOrigin
	}
	return !affiliate.OriginAllowed(c.entry.AllowedOrigins, origin)
}

// validToken reports whether text is a valid access token of this deployment. The
// response to a valid token is 403, because a token must not register clicks, and
// otherwise 401. The token grants no access here, so issuer and audience are not checked.
// A token whose header names a key by anything other than kid, such as jku or jwk, is not
// valid.
func (c *Collector) validToken(ctx context.Context, text string) bool {
	// The decoder of tokens ignores line breaks, even if it is strict.
	if strings.Count(text, ".") != 2 || strings.ContainsAny(text, "\r\n") {
		return false
	}
	keys, state := c.deps.Directory.SigningKeys(ctx)
	if state != directory.Found {
		return false
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(30*time.Second),
		jwt.WithTimeFunc(c.deps.Now),
		jwt.WithStrictDecoding(),
	)
	token, err := parser.ParseWithClaims(text, &jwt.RegisteredClaims{}, func(token *jwt.Token) (any, error) {
		for _, header := range []string{"jku", "jwk", "x5u", "x5c", "crit"} {
			if _, present := token.Header[header]; present {
				return nil, jwt.ErrTokenUnverifiable
			}
		}
		kid, _ := token.Header["kid"].(string)
		return signingKey(keys, kid)
	})
	return err == nil && token.Valid
}

func signingKey(keys *edgev1.SigningKeys, kid string) (any, error) {
	for _, key := range keys.Keys {
		if key.Kid == kid && len(key.Ed25519PublicKey) == ed25519.PublicKeySize {
			return ed25519.PublicKey(key.Ed25519PublicKey), nil
		}
	}
	return nil, jwt.ErrTokenUnverifiable
}

// Names of the rate limits (zones).
const (
	// zoneTracking counts requests with a valid key, per key.
	zoneTracking = "tracking"
	// zoneAddress counts requests without a valid key, per client address.
	zoneAddress = "tracking-address"
	// zoneVisitor counts requests with a valid key, per key and client address.
	zoneVisitor = "tracking_visitor"
)

// countVisitor counts a request for the limit of its key and its client address, so that
// one client cannot use up the limit of a key. Each collector counts on its own, because
// a call to Redis for each visitor would be too much. Addresses of trusted proxies are
// not counted, because many visitors can have them. If counted is false, no limit
// applies.
func (c *Collector) countVisitor(ctx context.Context, caller apiCaller, addr netip.Addr) (result ratelimit.Result, counted bool) {
	if caller.status != keyValid || c.cfg.LimitVisitor == 0 || httpedge.Contains(c.cfg.TrustedProxies, addr) {
		return ratelimit.Result{}, false
	}
	return c.visitors.Take(ctx, ratelimit.Zone{Name: zoneVisitor, Limit: c.cfg.LimitVisitor}, caller.subject+httpedge.LimitSubject(addr)), true
}

// countRequest counts a request for the rate limit: for its key if the key is valid, and
// otherwise for the client's address, so that a client cannot avoid the limit with
// invented keys.
func (c *Collector) countRequest(ctx context.Context, caller apiCaller, addr netip.Addr) ratelimit.Result {
	if caller.status == keyValid {
		return c.deps.Limits.Take(ctx, ratelimit.Zone{Name: zoneTracking, Limit: c.cfg.LimitTracking}, caller.subject)
	}
	return c.deps.Limits.Take(ctx, ratelimit.Zone{Name: zoneAddress, Limit: c.cfg.LimitTracking}, httpedge.LimitSubject(addr))
}
