package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"regexp"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/storage/postgres"
)

// The metadata keys of the request header Idempotency-Key and of the response header
// Idempotent-Replayed.
const (
	idempotencyKey     = "idempotency-key"
	idempotentReplayed = "idempotent-replayed"
)

var idempotencyKeyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// IdempotencyKeyFrom returns the call's Idempotency-Key. present is true if the call has
// at least one Idempotency-Key header. ok is true if the call has exactly one of these
// headers and the key is well-formed.
func IdempotencyKeyFrom(ctx context.Context) (key string, ok, present bool) {
	values := metadata.ValueFromIncomingContext(ctx, idempotencyKey)
	if len(values) == 0 {
		return "", false, false
	}
	return values[0], len(values) == 1 && idempotencyKeyPattern.MatchString(values[0]), true
}

// OptionalKey returns the Idempotency-Key of a call whose request contains no data of a
// buyer, or nil if the call has no key.
func OptionalKey(ctx context.Context, method string, req proto.Message, at time.Time) (*affiliate.IdempotencyKey, error) {
	key, ok, present := IdempotencyKeyFrom(ctx)
	switch {
	case !present:
		return nil, nil
	case !ok:
		return nil, ErrIdempotencyKeyMalformed
	}
	return &affiliate.IdempotencyKey{Method: method, Key: key, Fingerprint: Fingerprint(nil, req), At: at}, nil
}

// ErrIdempotencyKeyMalformed refuses a call whose Idempotency-Key is malformed.
var ErrIdempotencyKeyMalformed = affiliate.Invalid("Idempotency-Key", "must be 1 to 80 letters, digits, hyphens and underscores")

// checkKeyAccepted returns a violation if a call has an Idempotency-Key but its method accepts no key.
// Without the violation, the caller would repeat the call and rely on a key that has no effect.
func checkKeyAccepted(ctx context.Context, policy Policy) affiliate.Violations {
	if _, _, present := IdempotencyKeyFrom(ctx); !present || policy.AcceptsKey {
		return nil
	}
	return affiliate.Violations{{Field: "Idempotency-Key", Message: "has no effect on this request and must be left out"}}
}

// ClaimKey claims the key of a call. It does nothing if key is nil. A transaction claims the
// key before it takes any other lock.
func ClaimKey(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, key *affiliate.IdempotencyKey) (replay []byte, err error) {
	if key == nil {
		return nil, nil
	}
	return postgres.ClaimKey(ctx, tx, scope, *key)
}

// StoreResponse stores the response of a call under its key. It does nothing if key is nil.
func StoreResponse(ctx context.Context, tx *postgres.Tx, scope affiliate.Scope, key *affiliate.IdempotencyKey, response []byte) error {
	if key == nil {
		return nil
	}
	return postgres.StoreResponse(ctx, tx, scope, *key, response)
}

// Fingerprint returns a hash of a request, which is stored with the Idempotency-Key.
// Equal requests have equal fingerprints, so a later request with the same
// Idempotency-Key can be compared with the first request. key is a secret. If the hash
// used no secret, a person who can read stored fingerprints could find a buyer's data by
// hashing guesses. key can be nil for requests that contain no such data.
func Fingerprint(key []byte, req proto.Message) []byte {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		panic(fmt.Sprintf("server: cannot encode a decoded request: %v", err))
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("idempotency"))
	mac.Write(bytes)
	return mac.Sum(nil)
}

// MarkReplayed marks the response as the stored response of an earlier request with the
// same Idempotency-Key.
func MarkReplayed(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(idempotentReplayed, "true"))
}
