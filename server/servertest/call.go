// Package servertest replaces the interceptors of a server in the tests of services. It
// returns contexts with the principal that authentication would find, and it runs the
// checks that the interceptors run before a method. Package pgtest creates the test data
// in the database.
package servertest

import (
	"context"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

// AsMember returns the context of a call with the token of a member of the workspace.
func AsMember(t testing.TB, scope affiliate.Scope, user affiliate.UserID, role affiliate.Role) context.Context {
	t.Helper()
	return server.WithPrincipal(t.Context(), server.Principal{
		Kind: server.MerchantToken, User: user, Workspace: scope.Workspace, Mode: scope.Mode, Role: role,
	})
}

// AsPartner returns the context of a call with the token of a partner.
func AsPartner(t testing.TB, partner affiliate.UserID, mode affiliate.Mode) context.Context {
	t.Helper()
	return server.WithPrincipal(t.Context(), server.Principal{Kind: server.PartnerToken, User: partner, Mode: mode})
}

// AsSecretKey returns the context of a call with a secret key of the scope.
func AsSecretKey(t testing.TB, scope affiliate.Scope) context.Context {
	t.Helper()
	return server.WithPrincipal(t.Context(), server.Principal{Kind: server.SecretKey, Workspace: scope.Workspace, Mode: scope.Mode})
}

// Annotations is the field of the violation that Check returns if a request breaks a
// validation rule of the proto files. These rules are annotations of the fields.
const Annotations = "annotations"

// Check runs the checks that the interceptors run before a method: first the validation
// rules of the proto files, then those of the service. It returns nil if the request is
// valid.
func Check(service interface {
	Check(proto.Message) affiliate.Violations
}, request proto.Message,
) error {
	if err := request.(interface{ ValidateAll() error }).ValidateAll(); err != nil {
		return affiliate.Invalid(Annotations, err.Error())
	}
	found := service.Check(request)
	return found.Err()
}
