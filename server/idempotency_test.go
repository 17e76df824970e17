package server

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func TestIdempotencyKeyFrom(t *testing.T) {
	for value, want := range map[string]bool{
		"a": true, "A-z_0": true, strings.Repeat("x", 80): true,
		"": false, strings.Repeat("x", 81): false, "a b": false, "a,b": false, "ä": false, "a\n": false,
	} {
		ctx := metadata.NewIncomingContext(t.Context(), metadata.Pairs("Idempotency-Key", value))
		if key, ok, present := IdempotencyKeyFrom(ctx); ok != want || !present || key != value {
			t.Errorf("IdempotencyKeyFrom with the key %q returned %q, %t, %t, want the key, %t, true", value, key, ok, present, want)
		}
	}
	twoKeys := metadata.NewIncomingContext(t.Context(), metadata.Pairs("idempotency-key", "a", "idempotency-key", "b"))
	if _, ok, present := IdempotencyKeyFrom(twoKeys); ok || !present {
		t.Errorf("IdempotencyKeyFrom with two keys returned %t, %t, want false, true", ok, present)
	}
	for _, ctx := range []context.Context{t.Context(), metadata.NewIncomingContext(t.Context(), metadata.MD{})} {
		if _, ok, present := IdempotencyKeyFrom(ctx); ok || present {
			t.Errorf("IdempotencyKeyFrom without a key returned %t, %t, want false, false", ok, present)
		}
	}
}

func TestFingerprint_DependsOnTheRequest(t *testing.T) {
	a := Fingerprint([]byte("key"), &affiliatev1.CreatePayoutBatchRequest{ProgramIds: []string{"x", "y"}})
	if again := Fingerprint([]byte("key"), &affiliatev1.CreatePayoutBatchRequest{ProgramIds: []string{"x", "y"}}); !bytes.Equal(a, again) || len(a) != 32 {
		t.Errorf("equal requests have the fingerprints %x and %x, want the same 32 bytes", a, again)
	}
	for _, other := range []*affiliatev1.CreatePayoutBatchRequest{{}, {ProgramIds: []string{"y", "x"}}, {ProgramIds: []string{"x", "y"}, Cutoff: proto.String("")}} {
		if bytes.Equal(a, Fingerprint([]byte("key"), other)) {
			t.Errorf("%v has the fingerprint of another request", other)
		}
	}
}
