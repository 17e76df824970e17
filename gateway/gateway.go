// Package gateway is the REST surface of the service. It is grpc-gateway,
// configured through its own extension points:
//
//	request  → panic guard → headers, HTTPS, CORS (call.go, headers.go)
//	         → runtime.ServeMux → middlewares: route, query, body, timeout (route.go)
//	         → generated handler → runtime.Marshaler (codec.go, decode.go) → core
//	response ← runtime.Marshaler (encode.go) ← response options (response.go),
//	           or the envelope from the error handlers (errors.go)
//
// Guarantees: every request that reaches a handler of net/http gets a response that the
// contract describes. Requests and responses use the same JSON dialect (codec.go). Every
// error response has the envelope of SPEC.md section 7, also after a panic or if the core
// is not reachable. Before the gateway refuses a request that cannot be decoded, it calls
// the core to check the caller (GateService.Admit). Therefore 401, 429 and 403 precede
// 415, 413 and 400. The core gets the decoded message and a fixed list of headers.
//
// The gateway makes no decisions about callers, limits or values beyond their
// type; the core does. Requests that net/http refuses before any handler runs (a
// malformed request line, headers over the limit) get net/http's own response.
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

// Config is the configuration of New. Conn is required; the zero values of the
// other fields are the strict choices.
type Config struct {
	// Conn is the connection to the core: a network connection, or a channel inside the
	// process that runs the same interceptors.
	Conn grpc.ClientConnInterface
	// TrustedProxies are the proxies whose headers may set the client's address and
	// report that the client used HTTPS. Default: no trusted proxies.
	TrustedProxies []netip.Prefix
	// AllowHTTP also serves plain HTTP, for development.
	AllowHTTP bool
	// AllowedOrigins are the web origins (https://app.example) whose scripts may
	// read responses. Default: none.
	AllowedOrigins []string
	// Timeout bounds one call of the core; the client gets 503 after it. The
	// default of 25 s is shorter than the server's write timeout. A negative value
	// means no timeout, for a core in the same process, which has its own deadline.
	Timeout time.Duration
	// Log receives panics, unexpected errors of the core and failed connections to it.
	// Default: no log.
	Log *slog.Logger
	// Now returns the time for generated request ids. Default: time.Now.
	Now func() time.Time
}

const defaultTimeout = 25 * time.Second

type gateway struct {
	Config
	origins map[string]bool
	// routes contains every route by verb and pattern.
	routes  map[string]*route
	mux     *runtime.ServeMux
	gate    affiliatev1.GateServiceClient
	guarded http.Handler
}

// services contains a registration function for every service that has routes. The mux
// tries the routes that were registered last first, so the routes with the most requests
// come last. The generated RegisterXHandlerServer functions are not used, because they
// would bypass the interceptors.
var services = []func(context.Context, *runtime.ServeMux, grpc.ClientConnInterface) error{
	registrar(affiliatev1.NewWebhookServiceClient, affiliatev1.RegisterWebhookServiceHandlerClient),
	registrar(affiliatev1.NewFraudServiceClient, affiliatev1.RegisterFraudServiceHandlerClient),
	registrar(affiliatev1.NewPayoutServiceClient, affiliatev1.RegisterPayoutServiceHandlerClient),
	registrar(affiliatev1.NewLedgerServiceClient, affiliatev1.RegisterLedgerServiceHandlerClient),
	registrar(affiliatev1.NewPromoCodeServiceClient, affiliatev1.RegisterPromoCodeServiceHandlerClient),
	registrar(affiliatev1.NewWorkspaceServiceClient, affiliatev1.RegisterWorkspaceServiceHandlerClient),
	registrar(affiliatev1.NewParticipantServiceClient, affiliatev1.RegisterParticipantServiceHandlerClient),
	registrar(affiliatev1.NewLinkServiceClient, affiliatev1.RegisterLinkServiceHandlerClient),
	registrar(affiliatev1.NewProgramServiceClient, affiliatev1.RegisterProgramServiceHandlerClient),
	registrar(affiliatev1.NewAttributionServiceClient, affiliatev1.RegisterAttributionServiceHandlerClient),
	registrar(affiliatev1.NewAccountServiceClient, affiliatev1.RegisterAccountServiceHandlerClient),
	registrar(affiliatev1.NewPartnerServiceClient, affiliatev1.RegisterPartnerServiceHandlerClient),
	registrar(affiliatev1.NewCommissionServiceClient, affiliatev1.RegisterCommissionServiceHandlerClient),
	registrar(affiliatev1.NewHealthServiceClient, affiliatev1.RegisterHealthServiceHandlerClient),
	registrar(affiliatev1.NewConversionServiceClient, affiliatev1.RegisterConversionServiceHandlerClient),
}

func registrar[C any](
	client func(grpc.ClientConnInterface) C, register func(context.Context, *runtime.ServeMux, C) error,
) func(context.Context, *runtime.ServeMux, grpc.ClientConnInterface) error {
	return func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return register(ctx, mux, client(conn))
	}
}

// New returns the handler of the REST API. It fails if the config is invalid or if a
// message of a route cannot be written in the JSON dialect.
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
	if g.routes, err = readRoutes(contract.Files()); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	useQueryParser()
	g.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithMiddlewares(g.matchRoute, g.readQuery, g.readBody, g.limitTime),
		runtime.WithMetadata(g.outgoing),
		runtime.WithErrorHandler(g.handleError),
		runtime.WithStreamErrorHandler(g.handleStreamError),
		runtime.WithRoutingErrorHandler(g.handleRoutingError),
		runtime.WithForwardResponseOption(setSuccess),
		runtime.WithOutgoingHeaderMatcher(responseHeader),
		runtime.WithOutgoingTrailerMatcher(func(string) (string, bool) { return "", false }),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithDisableChunkedEncoding(),
		runtime.WithWriteContentLength(),
	)
	for _, register := range services {
		if err := register(context.Background(), g.mux, config.Conn); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	if err := g.handleDocuments(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.guarded = httpedge.RecoverPanics(http.HandlerFunc(g.serve), g.reportPanic)
	return g, nil
}

func (g *gateway) reportPanic(r *http.Request, panicked any, stack []byte) {
	c := callFrom(r.Context())
	g.Log.ErrorContext(r.Context(), "panic in the gateway",
		"request_id", c.id, "panic", fmt.Sprint(panicked), "stack", string(stack))
}
