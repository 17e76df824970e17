package tributary

import (
	"testing"

	"github.com/tributary-hq/tributary/gateway/contract"
)

func TestIdempotent_ListsTheSameCallsAsContract(t *testing.T) {
	routes, err := contract.Routes(contract.Files())
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, route := range routes {
		accepted := route.AcceptsKey
		if accepted != idempotent[route.FullMethod] {
			t.Errorf("%s: the contract accepts an idempotency key: %v, but the client sends one: %v", route.FullMethod, accepted, idempotent[route.FullMethod])
		}
		if accepted {
			found++
		}
	}
	if found != len(idempotent) {
		t.Errorf("%d calls accept an idempotency key, but the client lists %d", found, len(idempotent))
	}
}

func TestOnlyReads_IsTrueForGET(t *testing.T) {
	for method, want := range map[string]bool{
		"/affiliate.v1.ProgramService/GetProgram":         true,
		"/affiliate.v1.CommissionService/ListCommissions": true,
		"/affiliate.v1.ProgramService/CreateProgram":      false,
		"/affiliate.v1.ProgramService/NoSuchMethod":       false,
		"/grpc.health.v1.Health/Check":                    false,
	} {
		if got := onlyReads(method); got != want {
			t.Errorf("onlyReads(%q) = %v, want %v", method, got, want)
		}
	}
}
