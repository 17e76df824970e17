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
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// standing is the result of checking a request's credential.
type standing int

const (
	// unknown: no key, a malformed key, a key that does not exist, or one that ended.
	unknown standing = iota
	// wrongKind: a genuine credential that must not register clicks.
	wrongKind
	// unverified: the checksum is right and the directory cannot be read.
	unverified
	// known: a valid public key; scope is its workspace and mode.
	known
)

type caller struct {
	standing standing
	identity
	scope affiliate.Scope
	// entry is the directory's entry of a known key.
	entry *edgev1.PublicKeyEntry
}

// identity holds what follows from the text of a well-formed key.
type identity struct {
	key    affiliate.Key
	digest [32]byte
	// subject is the digest as the rate limiter counts it.
	subject string
}

func identityOf(key affiliate.Key) identity {
	digest := key.Digest()
	return identity{key: key, digest: digest, subject: string(digest[:])}
}

// rememberKeys bounds the cache of parsed keys. An entry takes about 350 bytes.
const rememberKeys = 10_000

// identities caches keys that the directory has found, so that the checksum and
// digest of a key are not computed with every click. The directory still decides
// with every click whether the key is valid. Keys that do not exist are not cached,
// so they evict nothing.
type identities struct{ *lru.Cache[string, identity] }

func newIdentities() identities { return identities{newCache[string, identity](rememberKeys)} }

func (i identities) add(text string) {
	// text may be part of a body, which the cache would keep: store a copy.
	if key, ok := affiliate.ParseKey(strings.Clone(text)); ok {
		i.Add(key.Reveal(), identityOf(key))
	}
}

// newCache returns a cache for values that are costly to compute. It is read with Peek,
// which needs no exclusive lock and does not change the order, so a full cache evicts the
// oldest entry.
func newCache[K comparable, V any](size int) *lru.Cache[K, V] {
	cache, _ := lru.New[K, V](size) // fails only without a size
	return cache
}

// headerCredential returns the credential of the headers. there is false if they
// have none; then the body may have one.
func headerCredential(h http.Header) (text string, there bool) {
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

func (c *Collector) identify(ctx context.Context, text string) caller {
	var who caller
	var remembered bool
	if who.identity, remembered = c.known.Peek(text); !remembered {
		key, ok := affiliate.ParseKey(text)
		switch {
		case !ok:
			if !affiliate.LooksLikeKey(text) && c.genuineToken(ctx, text) {
				return caller{standing: wrongKind}
			}
			return caller{}
		case key.Kind != affiliate.PublicKey:
			return caller{standing: wrongKind}
		}
		who.identity = identityOf(key)
	}
	entry, state := c.directory.PublicKey(ctx, who.digest)
	switch {
	case state == directory.Blind:
		who.standing = unverified
	case state == directory.Found && entry.Mode == edgeMode(who.key.Mode) && c.live(entry):
		workspace, ok := affiliate.IDFromBytes[affiliate.Workspace](entry.WorkspaceId)
		if ok {
			who.standing, who.scope, who.entry = known, affiliate.Scope{Workspace: workspace, Mode: who.key.Mode}, entry
		}
		if !remembered {
			c.known.add(text)
		}
	}
	return who
}

// live reports whether a key is valid now. A rolled key ends at its time, whether or
// not the core has written the directory since.
func (c *Collector) live(entry *edgev1.PublicKeyEntry) bool {
	return !entry.Revoked && (entry.ExpiresAtMs == 0 || c.now().UnixMilli() < entry.ExpiresAtMs)
}

// foreign reports whether the request comes from a page of an origin that the
// workspace does not allow. Requests of servers have no Origin header. The origin
// "null" of a page that hides its own is not allowed.
func (w caller) foreign(h http.Header) bool {
	if w.entry == nil || len(w.entry.AllowedOrigins) == 0 {
		return false
	}
	origin := h.Get("Origin")
	return origin != "" && !affiliate.OriginAllowed(w.entry.AllowedOrigins, origin)
}

// genuineToken reports whether text is a valid access token of this deployment (403)
// and not garbage (401). It grants nothing, so it does not check issuer and audience.
// It refuses header fields that could redirect the choice of the key.
func (c *Collector) genuineToken(ctx context.Context, text string) bool {
	if strings.Count(text, ".") != 2 {
		return false
	}
	keys, state := c.directory.SigningKeys(ctx)
	if state != directory.Found {
		return false
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(30*time.Second),
		jwt.WithTimeFunc(c.now),
	)
	token, err := parser.ParseWithClaims(text, &jwt.RegisteredClaims{}, func(token *jwt.Token) (any, error) {
		for _, header := range []string{"jku", "jwk", "x5u", "x5c", "crit"} {
			if _, there := token.Header[header]; there {
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

const (
	zoneTracking = "tracking"
	// zoneAddress counts requests without a known key.
	zoneAddress = "tracking-address"
)

// charge counts a request with a known key under the key and any other request under
// its address, so that made-up keys do not get windows of their own.
func (c *Collector) charge(ctx context.Context, who caller, addr netip.Addr) ratelimit.Result {
	if who.standing == known {
		return c.limits.Take(ctx, ratelimit.Zone{Name: zoneTracking, Limit: c.limit}, who.subject)
	}
	return c.limits.Take(ctx, ratelimit.Zone{Name: zoneAddress, Limit: c.limit}, httpedge.LimitSubject(addr))
}
