// Package gateway is the service's REST surface: it turns HTTP requests into
// calls of the gRPC core and the core's answers into HTTP answers.
//
//	request → panic guard → headers, HTTPS, CORS (headers.go)
//	        → grpc-gateway's mux → the matched route: media type, size, JSON,
//	          query (endpoint.go, decode.go, query.go)
//	        → generated handler → channel (conn.go) → core
//	        ← JSON (encode.go), status and headers, or the envelope (errors.go)
//
// It guarantees that every request that reaches a handler of net/http gets an
// answer of the contract: JSON by one dialect in both directions (codec.go), and
// on every refusal, down to a panic or a lost core, the envelope of SPEC.md
// section 7. A request that does not decode is shown to the core first
// (GateService.Admit), so a caller who would be refused learns nothing about
// bodies. To the core go the decoded message and six named headers, nothing
// that a client could pick a name for.
//
// It decides nothing itself: who may call what, limits, and what a value may be
// beyond its type are the core's. What net/http refuses before any handler runs
// (a malformed request line, headers over the limit) has net/http's own answer.
package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/gateway/contract"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
)

// Config is what New needs. Conn is required; the zero value of the rest is the
// strict choice.
type Config struct {
	// Conn leads to the core: a network connection, or a channel inside the
	// process that runs the same interceptors.
	Conn grpc.ClientConnInterface
	// TrustedProxies may say who the client is and that it came over HTTPS.
	// Default: nobody.
	TrustedProxies []netip.Prefix
	// AllowHTTP serves plain HTTP too; for development.
	AllowHTTP bool
	// AllowedOrigins are the web origins (https://app.example) whose scripts may
	// read answers. Default: none.
	AllowedOrigins []string
	// Timeout bounds one call of the core, after which the client reads 503.
	// Default 25 s, which ends before the server's write timeout does. Negative:
	// none, for a core in the same process, which has a deadline of its own.
	Timeout time.Duration
	// Log gets panics, answers of the core that are no refusals, and its loss.
	// Default: discarded.
	Log *slog.Logger
	// Now stamps minted request ids. Default time.Now.
	Now func() time.Time
}

const defaultTimeout = 25 * time.Second

type gateway struct {
	Config
	origins map[string]bool
	routes  *routeTable
	mux     *runtime.ServeMux
	gate    affiliatev1.GateServiceClient
	guarded http.Handler
}

// services registers the handlers of every service that has routes. The
// XHandlerServer twins would call an implementation past its interceptors.
var services = []func(context.Context, *runtime.ServeMux, grpc.ClientConnInterface) error{
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterHealthServiceHandlerClient(ctx, mux, affiliatev1.NewHealthServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterAccountServiceHandlerClient(ctx, mux, affiliatev1.NewAccountServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterWorkspaceServiceHandlerClient(ctx, mux, affiliatev1.NewWorkspaceServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterProgramServiceHandlerClient(ctx, mux, affiliatev1.NewProgramServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterParticipantServiceHandlerClient(ctx, mux, affiliatev1.NewParticipantServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterPartnerServiceHandlerClient(ctx, mux, affiliatev1.NewPartnerServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterLinkServiceHandlerClient(ctx, mux, affiliatev1.NewLinkServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterPromoCodeServiceHandlerClient(ctx, mux, affiliatev1.NewPromoCodeServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterConversionServiceHandlerClient(ctx, mux, affiliatev1.NewConversionServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterCommissionServiceHandlerClient(ctx, mux, affiliatev1.NewCommissionServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterAttributionServiceHandlerClient(ctx, mux, affiliatev1.NewAttributionServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterLedgerServiceHandlerClient(ctx, mux, affiliatev1.NewLedgerServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterPayoutServiceHandlerClient(ctx, mux, affiliatev1.NewPayoutServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterFraudServiceHandlerClient(ctx, mux, affiliatev1.NewFraudServiceClient(conn))
	},
	func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return affiliatev1.RegisterWebhookServiceHandlerClient(ctx, mux, affiliatev1.NewWebhookServiceClient(conn))
	},
}

// New makes the handler of the whole REST surface. It fails when the config
// cannot be served or when a routed message has no form in the JSON dialect.
func New(config Config) (http.Handler, error) {
	if config.Conn == nil {
		return nil, fmt.Errorf("gateway: Conn is missing")
	}
	if config.Log == nil {
		config.Log = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Timeout == 0 {
		config.Timeout = defaultTimeout
	}
	g := &gateway{Config: config, gate: affiliatev1.NewGateServiceClient(config.Conn)}
	var err error
	if g.origins, err = originSet(config.AllowedOrigins); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.routes, err = newRouteTable(contract.Files()); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithMiddlewares(g.endpoint),
		runtime.WithErrorHandler(g.handleError),
		runtime.WithRoutingErrorHandler(g.handleRoutingError),
		runtime.WithOutgoingHeaderMatcher(answerHeader),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithForwardResponseOption(setSuccess),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithWriteContentLength(),
	)
	core := channel{core: config.Conn, timeout: config.Timeout}
	for _, register := range services {
		if err := register(context.Background(), g.mux, core); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	if err := g.mux.HandlePath(http.MethodGet, contract.OpenAPIPath, serveDocument); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.guarded = httpedge.Guard(http.HandlerFunc(g.serve), g.reportPanic)
	return g, nil
}

func (g *gateway) reportPanic(r *http.Request, thrown any, stack []byte) {
	c := callFrom(r.Context())
	g.Log.ErrorContext(r.Context(), "panic in the gateway",
		"request_id", c.id, "panic", fmt.Sprint(thrown), "stack", string(stack))
}
