package main

import (
	"testing"

	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/server"
)

// The gateway does not know the policies of the core, so it has a list of its own. Scripts of
// every origin can call exactly the methods that accept participant tokens.
func TestAnyOrigin_IsForMethodsThatAcceptParticipantTokens(t *testing.T) {
	routes, err := contract.Routes(contract.Files())
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, r := range routes {
		policy, _ := server.PolicyOf(r.FullMethod)
		accepts := policy.Accept&server.ParticipantToken != 0
		if accepts {
			count++
		}
		if got := r.AnyOrigin; got != accepts {
			t.Errorf("every origin may call %s: %t; the method accepts participant tokens: %t", r.FullMethod, got, accepts)
		}
	}
	if count == 0 {
		t.Error("no method accepts participant tokens")
	}
}

// The gateway, the core and the reference agree about which calls can have an
// Idempotency-Key.
func TestIdempotencyKey_IsAcceptedByTheSameMethodsInCoreAndContract(t *testing.T) {
	routes, err := contract.Routes(contract.Files())
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range routes {
		policy, _ := server.PolicyOf(r.FullMethod)
		if accepted := r.AcceptsKey; accepted != policy.AcceptsKey {
			t.Errorf("%s: the contract accepts an Idempotency-Key: %t, the core: %t", r.FullMethod, accepted, policy.AcceptsKey)
		}
	}
}
