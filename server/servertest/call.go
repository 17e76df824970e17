// Package servertest replaces the interceptors of a server in the tests of services. It
// returns contexts with the principal that authentication would find, and it runs the
// checks that the interceptors run before a method. Package pgtest creates the test data
// in the database.
package servertest

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
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

// Transport is the transport of one call. It records the response header.
type Transport struct {
	grpc.ServerTransportStream
	mu     sync.Mutex
	header metadata.MD
}

// WithTransport returns the context of a call with a transport. If a key is passed, the
// call has this Idempotency-Key.
func WithTransport(ctx context.Context, key ...string) (context.Context, *Transport) {
	t := &Transport{}
	if len(key) > 0 {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key[0]))
	}
	return grpc.NewContextWithServerTransportStream(ctx, t), t
}

// SetHeader implements grpc.ServerTransportStream.
func (t *Transport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.header = metadata.Join(t.header, md)
	return nil
}

// Replayed reports whether the response is the stored response to an earlier call.
func (t *Transport) Replayed() bool {
	return slices.Equal(t.header.Get("idempotent-replayed"), []string{"true"})
}

// Status returns the HTTP status that the service has set, or an empty string.
func (t *Transport) Status() string {
	if values := t.header.Get("x-http-code"); len(values) > 0 {
		return values[0]
	}
	return ""
}

// Annotations is the field of the violation that Check returns if a request breaks a
// validation rule of the proto files. These rules are annotations of the fields.
const Annotations = "annotations"

// Check runs the checks that the interceptors run before a method: the validation rules of
// the proto files and, if the request passes them, the checks of the service. It returns
// nil if the request is valid.
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

// Unlimited is a server.Limiter that allows every call.
type Unlimited struct{}

// Allow implements server.Limiter.
func (Unlimited) Allow(context.Context, server.Zone, string) server.Allowance {
	return server.Allowance{Allowed: true}
}
