package collector

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tributary-hq/tributary/affiliate"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

// standing is what a request's credential is worth here.
type standing int

const (
	// unknown: no key, a malformed one, one that nobody has, or one that ended.
	unknown standing = iota
	// wrongKind: a genuine credential that may not register clicks.
	wrongKind
	// unverified: the checksum is right and the directory cannot be read.
	unverified
	// known: whose key it is stands in scope.
	known
)

type caller struct {
	standing standing
	identity
	scope affiliate.Scope
	// entry is the directory's word on a known key.
	entry *edgev1.PublicKeyEntry
}

// identity is what a well-formed key alone says.
type identity struct {
	key    affiliate.Key
	digest [32]byte
	// subject is the digest as limits count it.
	subject string
}

func identityOf(key affiliate.Key) identity {
	digest := key.Digest()
	return identity{key: key, digest: digest, subject: string(digest[:])}
}

// rememberKeys bounds the keys that are recognised without being read again;
// one takes some 250 bytes.
const rememberKeys = 10_000

// identities remembers keys that the directory has found, so that a key's
// checksum and digest are computed once and not with every click. Whether the
// key still counts is for the directory to say each time. Made-up keys do not
// get in and push nothing out.
type identities struct{ *bounded[string, identity] }

func newIdentities() identities { return identities{newBounded[string, identity](rememberKeys)} }

func (i identities) add(text string) {
	// A copy: text may lie in a body, which would be kept with it.
	if key, ok := affiliate.ParseKey(strings.Clone(text)); ok {
		i.bounded.add(key.Reveal(), identityOf(key))
	}
}

// headerCredential is the key that the headers name; there is false when they
// name none and the body may.
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
	if who.identity, remembered = c.known.find(text); !remembered {
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

// live says that a key still counts. A rolled one ends at its instant, whether or
// not anybody wrote the directory since.
func (c *Collector) live(entry *edgev1.PublicKeyEntry) bool {
	return !entry.Revoked && (entry.ExpiresAtMs == 0 || c.now().UnixMilli() < entry.ExpiresAtMs)
}

// foreign says that the request comes from a page that is none of the
// workspace's. Servers name no origin; null is that of a page that hides its own.
func (w caller) foreign(h http.Header) bool {
	if w.entry == nil || len(w.entry.AllowedOrigins) == 0 {
		return false
	}
	origin := h.Get("Origin")
	return origin != "" && !affiliate.OriginAllowed(w.entry.AllowedOrigins, origin)
}

// genuineToken tells an access token of this deployment (403) from garbage
// (401). It grants nothing, so issuer and audience do not matter; what a signer
// could be tricked with does.
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
	// zoneAddress counts what no known key answers for.
	zoneAddress = "tracking-address"
)

// charge counts the request: of a known key under the key, any other under its
// address, so that junk keys make no windows of their own.
func (c *Collector) charge(ctx context.Context, who caller, addr netip.Addr) ratelimit.Result {
	if who.standing == known {
		return c.limits.Take(ctx, ratelimit.Zone{Name: zoneTracking, Limit: c.limit}, who.subject)
	}
	return c.limits.Take(ctx, ratelimit.Zone{Name: zoneAddress, Limit: c.limit}, httpedge.LimitSubject(addr))
}
