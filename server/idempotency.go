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

// The metadata of SPEC.md section 8's header, and the one that tells a caller
// that the answer was given before.
const (
	idempotencyKey     = "idempotency-key"
	idempotentReplayed = "idempotent-replayed"
)

var idempotencyKeyForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,80}$`)

// IdempotencyKeyFrom is the call's Idempotency-Key. present is whether one came
// at all, ok whether it is well-formed: an absent one is not.
func IdempotencyKeyFrom(ctx context.Context) (key string, ok, present bool) {
	values := metadata.ValueFromIncomingContext(ctx, idempotencyKey)
	if len(values) == 0 {
		return "", false, false
	}
	return values[0], len(values) == 1 && idempotencyKeyForm.MatchString(values[0]), true
}

// Fingerprint tells requests apart that come under one Idempotency-Key: equal
// messages have equal fingerprints. The key keeps whoever reads one from guessing
// what the request said of a buyer.
func Fingerprint(key []byte, req proto.Message) []byte {
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(req)
	if err != nil {
		panic(fmt.Sprintf("server: a request that was decoded cannot be encoded: %v", err))
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("idempotency"))
	mac.Write(bytes)
	return mac.Sum(nil)
}

// MarkReplayed tells the caller that the answer is that of an earlier request
// with the same key.
func MarkReplayed(ctx context.Context) {
	_ = grpc.SetHeader(ctx, metadata.Pairs(idempotentReplayed, "true"))
}
