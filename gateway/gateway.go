// Package gateway serves the REST API. It translates each REST request into a gRPC call
// of the core, and the result of the call into a REST response. It is built on
// grpc-gateway and uses only the public extension points of that library. A request
// passes through these steps:
//
//  1. recover from panics
//  2. set common headers, require HTTPS, respond to OPTIONS (call.go)
//  3. find the route (runtime.ServeMux)
//  4. runtime.WithMiddlewares: validate the query, read the body, limit the time (route.go)
//  5. decode the request: runtime.Marshaler (codec.go, decode.go) and
//     runtime.SetQueryParameterParser (query.go)
//  6. call the core (a generated handler)
//  7. encode the response (encode.go), and set its status (runtime.WithForwardResponseOption,
//     call.go) and headers (runtime.WithOutgoingHeaderMatcher, call.go)
//  8. or encode the error (runtime.WithErrorHandler, WithStreamErrorHandler and
//     WithRoutingErrorHandler, errors.go)
//
// Downloads are streams of google.api.HttpBody. The routes of package browsersession lead to those
// of the API that open a session, or call the core themselves (session.go). Package contract reads the routes from the
// protos, and has the statuses and body limits.
//
// Guarantees: every request that reaches a handler of net/http gets a response that
// package contract describes, except that the gateway closes the connection if a download
// fails after its first piece. Requests and responses use the same JSON dialect
// (codec.go). Every error response has the error format of docs/errors.md, even after
// a panic or if the core cannot be reached. Before the gateway refuses a request that it
// cannot decode, it calls the core to check the caller (GateService.Admit). A caller
// without access therefore gets 401, 429 or 403, and not 415, 413 or 400. The core gets
// only the decoded message and a fixed set of metadata keys (call.go).
//
// The gateway checks only the form of a request and the types of its values. The core
// decides about callers, limits and values. If net/http refuses a request before any
// handler runs (because of a malformed request line or too large headers), the client
// gets net/http's own response.
package gateway

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/gateway/browsersession"
	"github.com/tributary-hq/tributary/gateway/contract"
	"github.com/tributary-hq/tributary/gateway/site"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/web"
)

// Config configures a gateway. Conn is required. The zero values of the other fields are
// the most restrictive settings.
type Config struct {
	// Conn is the connection to the core. It is a network connection, or a connection to
	// a core in the same process. The latter must run the interceptors of the core too.
	Conn grpc.ClientConnInterface
	// TrustedProxies are the proxies whose headers may set the client's address and
	// report that the client used HTTPS. Default: no trusted proxies.
	TrustedProxies []netip.Prefix
	// AllowHTTP makes the gateway accept requests over plain HTTP. It is meant for
	// development.
	AllowHTTP bool
	// AllowedOrigins are the web origins (https://app.example) whose scripts may
	// read responses. Default: none.
	AllowedOrigins []string
	// Timeout bounds one call to the core. If the call takes longer, the client gets 503.
	// The default, 25 s, is shorter than the write timeout of the server. A negative
	// value means no timeout. It is for a core in the same process, which has deadlines
	// of its own.
	Timeout time.Duration
	// Stopping ends when the process begins to stop. Streams of events then end, so
	// that their clients connect to another process. nil means that only the core ends
	// them.
	Stopping context.Context
	// Log receives panics, unexpected errors of the core and failed connections to it.
	// Default: no log.
	Log *slog.Logger
	// Site serves the pages for people. Default: those of package web.
	Site *site.Site
	// Registry receives the metrics. Default: they are not exported.
	Registry prometheus.Registerer
	// Now returns the time for generated request ids. Default: time.Now.
	Now func() time.Time
}

const defaultTimeout = 25 * time.Second

// defaultPieceTimeout replaces the write timeout of the server for downloads, because a
// whole download may take longer than that timeout.
const defaultPieceTimeout = 30 * time.Second

type gateway struct {
	Config
	cors httpedge.CORS
	// routes contains every route. A key is the HTTP method, a space and the pattern that
	// the mux has for the route.
	routes  map[string]*route
	mux     *runtime.ServeMux
	gate    affiliatev1.GateServiceClient
	portal  affiliatev1.PortalServiceClient
	metrics *metrics
	// sessions has the sessions of browsers.
	sessions browsersession.Sessions
	handler  http.Handler // calls serve and recovers from panics
	// pieceTimeout bounds the time in which a client must read one piece of a download.
	pieceTimeout time.Duration
	// refusedProxies logs the first request of a proxy that is not trusted.
	refusedProxies httpedge.RefusedProxies
}

// services contains a registration function for every service that has routes. The mux
// compares a request first with the routes that were registered last, so the services
// with the most requests are at the end of the list. The generated functions with names
// like RegisterXHandlerServer are not used, because they would bypass the interceptors of
// the core.
var services = []func(context.Context, *runtime.ServeMux, grpc.ClientConnInterface) error{
	registrar(affiliatev1.NewExportServiceClient, affiliatev1.RegisterExportServiceHandlerClient),
	registrar(affiliatev1.NewMailServiceClient, affiliatev1.RegisterMailServiceHandlerClient),
	registrar(affiliatev1.NewNotificationLogServiceClient, affiliatev1.RegisterNotificationLogServiceHandlerClient),
	registrar(affiliatev1.NewTestModeServiceClient, affiliatev1.RegisterTestModeServiceHandlerClient),
	registrar(affiliatev1.NewInstanceServiceClient, affiliatev1.RegisterInstanceServiceHandlerClient),
	registrar(affiliatev1.NewSearchServiceClient, affiliatev1.RegisterSearchServiceHandlerClient),
	registrar(affiliatev1.NewProcessorServiceClient, affiliatev1.RegisterProcessorServiceHandlerClient),
	registrar(affiliatev1.NewBuyerErasureServiceClient, affiliatev1.RegisterBuyerErasureServiceHandlerClient),
	registrar(affiliatev1.NewErasureServiceClient, affiliatev1.RegisterErasureServiceHandlerClient),
	registrar(affiliatev1.NewAnalyticsServiceClient, affiliatev1.RegisterAnalyticsServiceHandlerClient),
	registrar(affiliatev1.NewWebhookServiceClient, affiliatev1.RegisterWebhookServiceHandlerClient),
	registrar(affiliatev1.NewNotificationServiceClient, affiliatev1.RegisterNotificationServiceHandlerClient),
	registrar(affiliatev1.NewFraudServiceClient, affiliatev1.RegisterFraudServiceHandlerClient),
	registrar(affiliatev1.NewPayoutServiceClient, affiliatev1.RegisterPayoutServiceHandlerClient),
	registrar(affiliatev1.NewLedgerServiceClient, affiliatev1.RegisterLedgerServiceHandlerClient),
	registrar(affiliatev1.NewPromoCodeServiceClient, affiliatev1.RegisterPromoCodeServiceHandlerClient),
	registrar(affiliatev1.NewBrandingServiceClient, affiliatev1.RegisterBrandingServiceHandlerClient),
	registrar(affiliatev1.NewPortalServiceClient, affiliatev1.RegisterPortalServiceHandlerClient),
	registrar(affiliatev1.NewServiceTokenServiceClient, affiliatev1.RegisterServiceTokenServiceHandlerClient),
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
	registrar(affiliatev1.NewCustomerServiceClient, affiliatev1.RegisterCustomerServiceHandlerClient),
}

func registrar[C any](
	newClient func(grpc.ClientConnInterface) C, register func(context.Context, *runtime.ServeMux, C) error,
) func(context.Context, *runtime.ServeMux, grpc.ClientConnInterface) error {
	return func(ctx context.Context, mux *runtime.ServeMux, conn grpc.ClientConnInterface) error {
		return register(ctx, mux, newClient(conn))
	}
}

// New returns the handler of the REST API. It fails if the config is invalid, or if the
// JSON dialect does not support a message of a route.
func New(config Config) (http.Handler, error) {
	if config.Conn == nil {
		return nil, fmt.Errorf("gateway: Conn is missing")
	}
	config.Log, config.Timeout = cmp.Or(config.Log, slog.New(slog.DiscardHandler)), cmp.Or(config.Timeout, defaultTimeout)
	if config.Now == nil {
		config.Now = time.Now
	}
	config.Stopping = cmp.Or(config.Stopping, context.Background())
	if config.Registry == nil {
		config.Registry = prometheus.NewRegistry()
	}
	if config.Site == nil {
		var err error
		if config.Site, err = site.New(web.Files()); err != nil {
			return nil, fmt.Errorf("gateway: %w", err)
		}
	}
	g := &gateway{
		Config: config, gate: affiliatev1.NewGateServiceClient(config.Conn), portal: affiliatev1.NewPortalServiceClient(config.Conn),
		metrics: newMetrics(config.Registry), pieceTimeout: defaultPieceTimeout,
	}
	g.sessions.Accounts, g.sessions.TrustedProxies = affiliatev1.NewAccountServiceClient(config.Conn), config.TrustedProxies
	var err error
	g.cors.RequestHeaders, g.cors.ResponseHeaders = corsRequestHeaders, corsResponseHeaders
	if g.cors.Origins, err = httpedge.ParseOrigins(config.AllowedOrigins); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	if g.routes, err = readRoutes(contract.Files()); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	useQueryParser()
	g.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, marshaler{}),
		runtime.WithMarshalerOption(csvMediaType, csvMarshaler{}),
		runtime.WithMiddlewares(g.matchRoute, g.readQuery, g.readBody, g.limitTime),
		runtime.WithMetadata(g.outgoingMetadata),
		runtime.WithErrorHandler(g.handleError),
		runtime.WithStreamErrorHandler(g.handleStreamError),
		runtime.WithRoutingErrorHandler(g.handleRoutingError),
		runtime.WithForwardResponseOption(setSuccess),
		runtime.WithForwardResponseRewriter(g.rewriteSession),
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
	if err := g.handleSessions(); err != nil {
		return nil, fmt.Errorf("gateway: %w", err)
	}
	g.handler = httpedge.RecoverPanics(http.HandlerFunc(g.serve), g.reportPanic)
	return g, nil
}

func (g *gateway) reportPanic(r *http.Request, panicked any, stack []byte) {
	c := callFrom(r.Context())
	if c.status == 0 {
		c.status = http.StatusInternalServerError // for the metrics
	}
	g.Log.ErrorContext(r.Context(), "panic in the gateway",
		"request_id", c.id, "panic", fmt.Sprint(panicked), "stack", string(stack))
}

const healthService = "/affiliate.v1.HealthService/"

var conversionReports = []string{affiliatev1.ConversionService_ReportConversion_FullMethodName, affiliatev1.ConversionService_ReportConversions_FullMethodName}

// metrics measures requests. It has no label for the route, because the core measures each method. Only
// failed reports of conversions have a counter of their own here, because the core does not measure a
// report that does not reach it.
type metrics struct {
	seconds           *prometheus.HistogramVec
	failedConversions prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) *metrics {
	m := &metrics{seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "tributary_gateway_request_seconds",
		Help: "Time from the arrival of a request to its complete response, by class of the HTTP status: 2xx to 5xx. " +
			"Health checks, streams of events and requests without a response are not counted.",
		Buckets: []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10},
	}, []string{"class"}), failedConversions: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tributary_gateway_conversion_reports_failed_total",
		Help: "Reports of one or more conversions that got a response of the class 5xx.",
	})}
	for _, class := range []string{"2xx", "3xx", "4xx", "5xx"} {
		m.seconds.WithLabelValues(class)
	}
	registry.MustRegister(m.seconds, m.failedConversions)
	return m
}

// observe measures a request. It ignores health checks, streams of events and requests without a response. It also
// ignores a 5xx response after the client has closed the connection, because the closing has caused the error.
func (m *metrics) observe(c *call, took time.Duration) {
	switch {
	case c.status == 0, c.status >= http.StatusInternalServerError && c.request.Context().Err() != nil:
		return
	case c.route != nil && (c.route.EventStream || strings.HasPrefix(c.route.FullMethod, healthService)):
		return
	}
	if c.route != nil && c.status >= http.StatusInternalServerError && slices.Contains(conversionReports, c.route.FullMethod) {
		m.failedConversions.Inc()
	}
	m.seconds.WithLabelValues(strconv.Itoa(c.status/100) + "xx").Observe(took.Seconds())
}
