package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/gateway/browsersession"
	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// maxSessionBody bounds the body of a request that renews or ends a session. It can only be an
// empty object.
const maxSessionBody = 1 << 10

// opening is a request that opens the session of a browser.
type opening struct {
	kind         browsersession.Kind
	keepLoggedIn bool
}

// handleSessions adds the routes of package browsersession. They are not in the OpenAPI document,
// because they are only for the pages of the service.
func (g *gateway) handleSessions() error {
	service := affiliatev1.File_affiliate_v1_account_proto.Services().ByName("AccountService")
	bind, err := newRoute(contract.Route{RPC: service.Methods().ByName("BindBrowser")})
	if err != nil {
		return err
	}
	for _, kind := range browsersession.Kinds {
		path := browsersession.Prefix + kind.Name + "/"
		for _, name := range kind.Opening {
			target := "/api/v1/auth/" + kind.Name + "/" + name
			err := g.handleSession(contract.Route{Template: path + name}, func(c *call, r *http.Request) { g.openSession(c, r, bind, kind, target) })
			if err != nil {
				return err
			}
		}
		for _, end := range []struct {
			name, rpc string
			status    int
			handle    func(c *call, r *http.Request, kind browsersession.Kind)
		}{
			{"renew", "RenewBrowserSession", http.StatusOK, g.renewSession},
			{"logout", "EndBrowserSession", http.StatusNoContent, g.endSession},
		} {
			rpc := service.Methods().ByName(protoreflect.Name(end.rpc))
			err := g.handleSession(contract.Route{
				Template: path + end.name, RPC: rpc, FullMethod: "/" + string(service.FullName()) + "/" + end.rpc,
				Facts: contract.Facts{Status: end.status, BodyLimit: maxSessionBody},
			}, func(c *call, r *http.Request) { end.handle(c, r, kind) })
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (g *gateway) handleSession(r contract.Route, handle func(c *call, r *http.Request)) error {
	r.Verb = http.MethodPost
	prepared, err := newRoute(r)
	if err != nil {
		return err
	}
	g.routes[r.Verb+" "+r.Template] = prepared
	return g.mux.HandlePath(r.Verb, r.Template, func(_ http.ResponseWriter, r *http.Request, _ map[string]string) {
		handle(callFrom(r.Context()), r)
	})
}

// openSession lets the route of the API with the path target handle the request, which differs
// only in its query: it can have the parameter keepLoggedIn. rewriteSession gets the response of
// the route.
func (g *gateway) openSession(c *call, r *http.Request, bind *route, kind browsersession.Kind, target string) {
	binding := &affiliatev1.BindBrowserRequest{}
	parseQuery(c.request.URL.RawQuery, bind.query, binding.ProtoReflect(), &c.faults)
	c.opening = &opening{kind, binding.GetKeepLoggedIn()}
	withoutQuery := *c.request
	withoutQuery.URL = &url.URL{Path: target}
	c.request = &withoutQuery
	g.mux.ServeHTTP(c, emptyRequest(r.Context(), c, http.MethodPost, withoutQuery.URL))
}

// rewriteSession replaces the refresh token of a response by a cookie, if the request opens the
// session of a browser. It leaves all other responses as they are. After a failure it writes the
// error response itself, because grpc-gateway would log a returned error.
func (g *gateway) rewriteSession(ctx context.Context, response proto.Message) (any, error) {
	c := callFrom(ctx)
	session, ok := response.(*affiliatev1.SessionResponse)
	if !ok || c.opening == nil {
		return response, nil
	}
	if err := g.sessions.Open(ctx, c, c.request, c.opening.kind, c.opening.keepLoggedIn, session.GetRefreshToken()); err != nil {
		g.refuseStatus(c, err)
		c.complete = true
	}
	return browserResponse{session}, nil
}

func (g *gateway) renewSession(c *call, r *http.Request, kind browsersession.Kind) {
	var md metadata.MD
	session, err := g.sessions.Renew(g.outgoingContext(r), c, c.request, kind, grpc.Header(&md))
	copyHeaders(c, md)
	if err != nil {
		g.refuseSession(c, err)
		return
	}
	body, err := marshaler{}.Marshal(browserResponse{session})
	if err != nil {
		g.refuseSession(c, err)
		return
	}
	c.Header().Set("Content-Type", "application/json")
	_, _ = c.Write(body)
}

func (g *gateway) endSession(c *call, r *http.Request, kind browsersession.Kind) {
	var md metadata.MD
	err := g.sessions.End(g.outgoingContext(r), c, c.request, kind, grpc.Header(&md))
	copyHeaders(c, md)
	if err != nil {
		g.refuseSession(c, err)
		return
	}
	c.WriteHeader(http.StatusNoContent)
}

func (g *gateway) refuseSession(c *call, err error) {
	if errors.Is(err, browsersession.ErrNoCookie) {
		g.refuse(c, refusal{reason: affiliate.ReasonRefreshTokenInvalid})
		return
	}
	g.refuseStatus(c, err)
}

func (g *gateway) outgoingContext(r *http.Request) context.Context {
	return metadata.NewOutgoingContext(r.Context(), g.outgoingMetadata(r.Context(), nil))
}

// isSession reports whether the path belongs to package browsersession.
func isSession(path string) bool { return strings.HasPrefix(path, browsersession.Prefix) }

// browserResponse is the response of a session of a browser. Its JSON has no refresh token.
type browserResponse struct{ session *affiliatev1.SessionResponse }

func (r browserResponse) append(b []byte) ([]byte, error) {
	plan, err := planFor(r.session.ProtoReflect().Descriptor())
	if err != nil {
		return nil, err
	}
	fields := slices.DeleteFunc(slices.Clone(plan.fields), func(f fieldPlan) bool { return f.fd.Name() == "refresh_token" })
	return (&messagePlan{desc: plan.desc, fields: fields}).append(b, r.session.ProtoReflect())
}
