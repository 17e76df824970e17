package landing

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/jackc/pgx/v5/pgconn"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	landingv1 "github.com/tributary-hq/tributary/gen/landing/v1"
	"github.com/tributary-hq/tributary/httpedge"
	"github.com/tributary-hq/tributary/httpedge/errorspec"
	"github.com/tributary-hq/tributary/spans"
	"github.com/tributary-hq/tributary/storage/ratelimit"
)

const (
	// zoneName is the name of the rate limit. All POST requests share it.
	zoneName = "landing"
	// maxBody is the maximum size of a body in bytes. The longest contact message fits,
	// even if each of its characters is written as two \u escapes.
	maxBody = 64 << 10
)

// HTTPConfig configures the handler.
type HTTPConfig struct {
	// Limits and Limit are the rate limit: the number of POST requests in any 60 seconds
	// per client address.
	Limits *ratelimit.Limiter
	Limit  int64
	// Origins are the web origins whose scripts may read responses.
	Origins []string
	// TrustedProxies are the proxies whose headers may set the client's address and report
	// that the client used HTTPS.
	TrustedProxies []netip.Prefix
	// AllowHTTP makes the handler accept requests over plain HTTP. It is meant for
	// development.
	AllowHTTP bool
}

type handler struct {
	HTTPConfig
	service *Service
	cors    httpedge.CORS
	zone    ratelimit.Zone
	// routes contains the HTTP methods of each path, sorted.
	routes map[string][]string
	mux    *runtime.ServeMux
	// refusedProxies logs the first request of a proxy that is not trusted.
	refusedProxies httpedge.RefusedProxies
}

// Handler returns the HTTP handler of the service.
func (s *Service) Handler(config HTTPConfig) (http.Handler, error) {
	h := &handler{
		HTTPConfig: config, service: s, routes: routes(),
		zone: ratelimit.Zone{Name: zoneName, Limit: config.Limit},
		cors: httpedge.CORS{
			RequestHeaders: "Content-Type, Traceparent, Tracestate, X-Request-Id", ResponseHeaders: "RateLimit, RateLimit-Policy, Retry-After, X-Request-Id",
		},
	}
	var err error
	if h.cors.Origins, err = httpedge.ParseOrigins(config.Origins); err != nil {
		return nil, fmt.Errorf("landing: %w", err)
	}
	h.mux = runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, codec{}),
		runtime.WithForwardResponseOption(setSuccess),
		runtime.WithErrorHandler(h.handleError),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithWriteContentLength(),
	)
	if err := landingv1.RegisterLandingServiceHandlerServer(context.Background(), h.mux, s); err != nil {
		return nil, fmt.Errorf("landing: %w", err)
	}
	return httpedge.RecoverPanics(http.HandlerFunc(h.serve), s.reportPanic), nil
}

// Traced reports whether a request is traced. Health probes are not.
func Traced(r *http.Request) bool { return !strings.HasPrefix(r.URL.Path, livePath) }

func (h *handler) serve(w http.ResponseWriter, r *http.Request) {
	origin := h.cors.SetHeaders(w.Header(), r, httpedge.RequestID(r, h.service.config.Now), h.TrustedProxies)
	methods, found := h.routes[r.URL.Path]
	if found && slices.Contains(methods, r.Method) {
		spans.SetRoute(r.Context(), r.Method, r.URL.Path) // the paths of the routes contain no values
	}
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http does not send the body of a response to HEAD
	}
	switch {
	case !httpedge.Secure(r, h.TrustedProxies, h.AllowHTTP):
		h.refusedProxies.Log(h.service.config.Log, r, h.TrustedProxies)
		h.service.refuse(r.Context(), w, &affiliate.Error{Reason: affiliate.ReasonHTTPSRequired, Message: httpedge.HTTPSRequiredMessage})
	case !found:
		h.service.refuse(r.Context(), w, affiliate.Refuse(affiliate.ReasonNotFound))
	case method == http.MethodOptions:
		h.cors.RespondToOptions(w, r, methods, origin)
	case !slices.Contains(methods, method):
		w.Header().Set("Allow", strings.Join(methods, ", "))
		h.service.refuse(r.Context(), w, affiliate.Refuse(affiliate.ReasonMethodNotAllowed))
	case strings.HasPrefix(r.URL.Path, livePath):
		h.service.serveHealth(w, r)
	case method == http.MethodGet:
		h.mux.ServeHTTP(w, emptyRequest(r, method, nil))
	default:
		h.servePost(w, r)
	}
}

// servePost counts a POST request for the rate limit before it reads the body, so that invalid requests count too.
func (h *handler) servePost(w http.ResponseWriter, r *http.Request) {
	result := h.Limits.Allow(r.Context(), h.zone, httpedge.LimitSubject(httpedge.ClientAddr(r, h.TrustedProxies)))
	result.SetHeaders(w.Header(), zoneName)
	if !result.Allowed {
		h.service.refuse(r.Context(), w, affiliate.Refuse(reasonRateLimited))
		return
	}
	body, err := readBody(w, r)
	if err != nil {
		h.service.refuse(r.Context(), w, err)
		return
	}
	h.mux.ServeHTTP(w, emptyRequest(r, r.Method, body))
}

// readBody returns the whole body. If it ends early or arrives too slowly, readBody closes
// the connection, because the rest of the body could be read as the next request.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	if r.ContentLength > maxBody {
		return nil, affiliate.Refuse(affiliate.ReasonPayloadTooLarge)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, affiliate.Refuse(affiliate.ReasonPayloadTooLarge)
	case err != nil:
		w.Header().Set("Connection", "close")
		return nil, &affiliate.Error{Reason: reasonInvalidRequest, Message: "The body could not be read to its end."}
	// A request from a page (it has Origin) must declare JSON. A browser sends a preflight request before it
	// sends JSON to another origin, but not before it sends a body without a Content-Type.
	case len(body) > 0 && !httpedge.IsPlainJSON(r.Header), r.Header.Get("Origin") != "" && r.Header.Get("Content-Type") == "":
		return nil, affiliate.Refuse(affiliate.ReasonUnsupportedMediaType)
	}
	return body, nil
}

// emptyRequest returns the request that grpc-gateway gets. It has no query. It has no headers,
// because grpc-gateway would interpret some headers, such as Grpc-Timeout and TE.
func emptyRequest(r *http.Request, method string, body []byte) *http.Request {
	empty := (&http.Request{}).WithContext(r.Context())
	empty.Method = method
	empty.URL = &url.URL{Path: r.URL.Path}
	empty.Header = http.Header{}
	empty.Body = io.NopCloser(bytes.NewReader(body))
	return empty
}

// The paths of the health checks. They are not in the proto, because they are the same as
// the paths of the health checks in the core's API.
const (
	livePath  = "/api/v1/health"
	readyPath = "/api/v1/health/ready"
)

// routes returns the HTTP methods of each path, sorted. The paths of the forms come from
// the proto.
func routes() map[string][]string {
	table := map[string][]string{livePath: {http.MethodGet, http.MethodHead}, readyPath: {http.MethodGet, http.MethodHead}}
	methods := landingv1.File_landing_v1_landing_proto.Services().ByName("LandingService").Methods()
	for i := range methods.Len() {
		rule, _ := proto.GetExtension(methods.Get(i).Options(), annotations.E_Http).(*annotations.HttpRule)
		if path := rule.GetPost(); path != "" {
			table[path] = append(table[path], http.MethodPost)
		} else {
			table[rule.GetGet()] = append(table[rule.GetGet()], http.MethodGet, http.MethodHead)
		}
	}
	for path := range table {
		table[path] = append(table[path], http.MethodOptions)
		slices.Sort(table[path])
	}
	return table
}

const readyTimeout = 500 * time.Millisecond

// serveHealth responds to a health check. The metric of rejected requests does not count
// health checks.
func (s *Service) serveHealth(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == readyPath {
		if err := s.Ready(r.Context()); err != nil {
			w.Header().Set("Retry-After", "1")
			httpedge.WriteError(w, http.StatusServiceUnavailable, affiliate.ReasonServiceUnavailable, err.Error())
			return
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"status":"ok"}`+"\n")
}

var errNotReady = errors.New("postgres is not reachable")

// Ready returns errNotReady if the database does not respond.
func (s *Service) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	if s.config.Store.Ping(ctx) != nil {
		return errNotReady
	}
	return nil
}

// The error codes that only this service has (landing.v1.ErrorReason).
const (
	reasonInvalidEmail   affiliate.Reason = "INVALID_EMAIL"
	reasonInvalidRequest affiliate.Reason = "INVALID_REQUEST"
	reasonAntiSpam       affiliate.Reason = "ANTI_SPAM_FAILED"
	reasonRateLimited    affiliate.Reason = "RATE_LIMITED"
)

func (h *handler) handleError(_ context.Context, _ *runtime.ServeMux, _ runtime.Marshaler, w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil && errors.Is(err, context.Canceled) {
		// The client has closed the connection, so it gets no response.
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	// Generated handlers wrap the error of a decoder in a status. The service itself returns
	// no status.
	if status.Code(err) == codes.InvalidArgument {
		err = affiliate.Refuse(reasonInvalidRequest)
	}
	h.service.refuse(r.Context(), w, err)
}

// refuse writes the response for err. If err is not an *affiliate.Error, it comes from the
// database.
func (s *Service) refuse(ctx context.Context, w http.ResponseWriter, err error) {
	var refusal *affiliate.Error
	if !errors.As(err, &refusal) {
		refusal = affiliate.Refuse(affiliate.ReasonInternal)
		if databaseLost(err) {
			refusal = affiliate.Refuse(affiliate.ReasonServiceUnavailable)
		}
		s.config.Log.LogAttrs(ctx, slog.LevelError, "a request failed",
			slog.String("request_id", w.Header().Get(httpedge.RequestIDHeader)), slog.Any("error", err))
	}
	if refusal.Reason == affiliate.ReasonServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	spec := errorspec.ByReason(refusal.Reason)
	s.metrics.rejected.WithLabelValues(string(refusal.Reason)).Inc()
	httpedge.WriteError(w, spec.HTTPStatus, refusal.Reason, cmp.Or(refusal.Message, spec.Message))
}

// databaseLost reports whether the database cannot be reached, or cannot run the statement
// now. It returns false if the statement itself is the reason.
func databaseLost(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return true
	}
	// The classes of SQLSTATE codes: connection exception, transaction rollback,
	// insufficient resources, object not in the needed state, operator intervention.
	return len(pgErr.Code) > 2 && slices.Contains([]string{"08", "40", "53", "55", "57"}, pgErr.Code[:2])
}

func (s *Service) reportPanic(r *http.Request, panicked any, stack []byte) {
	s.metrics.rejected.WithLabelValues(string(affiliate.ReasonInternal)).Inc()
	s.config.Log.Error("panic", "path", r.URL.Path, "panic", fmt.Sprint(panicked), "stack", string(stack))
}
