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
	// unknown: no key, a malformed one, one that nobody has or had revoked.
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
	key      affiliate.Key
	digest   [32]byte
	scope    affiliate.Scope
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
	who := caller{key: key, digest: key.Digest()}
	entry, state := c.directory.PublicKey(ctx, who.digest)
	switch {
	case state == directory.Blind:
		who.standing = unverified
	case state == directory.Found && !entry.Revoked && entry.Mode == edgeMode(key.Mode):
		workspace, ok := affiliate.IDFromBytes[affiliate.Workspace](entry.WorkspaceId)
		if ok {
			who.standing, who.scope = known, affiliate.Scope{Workspace: workspace, Mode: key.Mode}
		}
	}
	return who
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
		for _, header := range []string{"jku", "jwk", "x5u", "x5c"} {
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
		return c.limits.Take(ctx, ratelimit.Zone{Name: zoneTracking, Limit: c.limit}, string(who.digest[:]))
	}
	return c.limits.Take(ctx, ratelimit.Zone{Name: zoneAddress, Limit: c.limit}, httpedge.LimitSubject(addr))
}
