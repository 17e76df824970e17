package server

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"regexp"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// The metadata keys of the request header Idempotency-Key (SPEC.md section 8) and of the
// response header Idempotent-Replayed.
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
