package gateway

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/api/httpbody"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// coreFunc returns the response of the fake core to one call. If it returns neither a
// message nor an error, the fake core responds with an empty message.
type coreFunc func(ctx context.Context, method string, request proto.Message) (proto.Message, error)

// receivedCall is one call that the fake core received.
type receivedCall struct {
	method   string
	request  proto.Message
	metadata metadata.MD
}

// fakeCore is a gRPC server with all services of the API. It records each call and
// responds with the result of respond. If respond is nil, it responds with an empty
// message.
type fakeCore struct {
	mu      sync.Mutex
	calls   []receivedCall
	respond coreFunc
	// pieces is the content of a download, header its metadata, and failure the error
	// after the last piece.
	pieces  []string
	failure error
	header  metadata.MD
	// endless makes a stream stay open after its pieces.
	endless bool
}

func (f *fakeCore) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	message := request.(proto.Message)
	f.mu.Lock()
	f.calls = append(f.calls, receivedCall{info.FullMethod, proto.Clone(message), md.Copy()})
	respond := f.respond
	f.mu.Unlock()
	if respond != nil {
		response, err := respond(ctx, info.FullMethod, message)
		if response != nil || err != nil {
			return response, err
		}
	}
	return emptyResponse(info.FullMethod), nil
}

// interceptStream records the call of a download. It sends header and pieces and then
// returns failure.
func (f *fakeCore) interceptStream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	request := emptyMessage(methodOf(info.FullMethod).Input())
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	f.mu.Lock()
	f.calls = append(f.calls, receivedCall{info.FullMethod, request, md.Copy()})
	pieces, failure, header := f.pieces, f.failure, f.header
	f.mu.Unlock()
	if err := stream.SetHeader(header); err != nil {
		return err
	}
	for _, piece := range pieces {
		if err := stream.SendMsg(&httpbody.HttpBody{ContentType: "text/csv; charset=utf-8", Data: []byte(piece)}); err != nil {
			return err
		}
	}
	if f.endless {
		<-stream.Context().Done()
		return stream.Context().Err()
	}
	return failure
}

func emptyResponse(method string) proto.Message { return emptyMessage(methodOf(method).Output()) }

func methodOf(fullMethod string) protoreflect.MethodDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MethodDescriptor)
}

func emptyMessage(desc protoreflect.MessageDescriptor) proto.Message {
	messageType, err := protoregistry.GlobalTypes.FindMessageByName(desc.FullName())
	if err != nil {
		panic(err)
	}
	return messageType.New().Interface()
}

// takeCalls returns the calls that the fake core received since the last takeCalls.
func (f *fakeCore) takeCalls() []receivedCall {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeCore) register(server grpc.ServiceRegistrar) {
	affiliatev1.RegisterHealthServiceServer(server, affiliatev1.UnimplementedHealthServiceServer{})
	affiliatev1.RegisterAccountServiceServer(server, affiliatev1.UnimplementedAccountServiceServer{})
	affiliatev1.RegisterBrandingServiceServer(server, affiliatev1.UnimplementedBrandingServiceServer{})
	affiliatev1.RegisterPortalServiceServer(server, affiliatev1.UnimplementedPortalServiceServer{})
	affiliatev1.RegisterServiceTokenServiceServer(server, affiliatev1.UnimplementedServiceTokenServiceServer{})
	affiliatev1.RegisterWorkspaceServiceServer(server, affiliatev1.UnimplementedWorkspaceServiceServer{})
	affiliatev1.RegisterProgramServiceServer(server, affiliatev1.UnimplementedProgramServiceServer{})
	affiliatev1.RegisterParticipantServiceServer(server, affiliatev1.UnimplementedParticipantServiceServer{})
	affiliatev1.RegisterPartnerServiceServer(server, affiliatev1.UnimplementedPartnerServiceServer{})
	affiliatev1.RegisterLinkServiceServer(server, affiliatev1.UnimplementedLinkServiceServer{})
	affiliatev1.RegisterPromoCodeServiceServer(server, affiliatev1.UnimplementedPromoCodeServiceServer{})
	affiliatev1.RegisterConversionServiceServer(server, affiliatev1.UnimplementedConversionServiceServer{})
	affiliatev1.RegisterCustomerServiceServer(server, affiliatev1.UnimplementedCustomerServiceServer{})
	affiliatev1.RegisterCommissionServiceServer(server, affiliatev1.UnimplementedCommissionServiceServer{})
	affiliatev1.RegisterAnalyticsServiceServer(server, affiliatev1.UnimplementedAnalyticsServiceServer{})
	affiliatev1.RegisterAttributionServiceServer(server, affiliatev1.UnimplementedAttributionServiceServer{})
	affiliatev1.RegisterLedgerServiceServer(server, affiliatev1.UnimplementedLedgerServiceServer{})
	affiliatev1.RegisterPayoutServiceServer(server, affiliatev1.UnimplementedPayoutServiceServer{})
	affiliatev1.RegisterFraudServiceServer(server, affiliatev1.UnimplementedFraudServiceServer{})
	affiliatev1.RegisterMailServiceServer(server, affiliatev1.UnimplementedMailServiceServer{})
	affiliatev1.RegisterNotificationLogServiceServer(server, affiliatev1.UnimplementedNotificationLogServiceServer{})
	affiliatev1.RegisterTestModeServiceServer(server, affiliatev1.UnimplementedTestModeServiceServer{})
	affiliatev1.RegisterInstanceServiceServer(server, affiliatev1.UnimplementedInstanceServiceServer{})
	affiliatev1.RegisterSearchServiceServer(server, affiliatev1.UnimplementedSearchServiceServer{})
	affiliatev1.RegisterProcessorServiceServer(server, affiliatev1.UnimplementedProcessorServiceServer{})
	affiliatev1.RegisterBuyerErasureServiceServer(server, affiliatev1.UnimplementedBuyerErasureServiceServer{})
	affiliatev1.RegisterErasureServiceServer(server, affiliatev1.UnimplementedErasureServiceServer{})
	affiliatev1.RegisterExportServiceServer(server, affiliatev1.UnimplementedExportServiceServer{})
	affiliatev1.RegisterWebhookServiceServer(server, affiliatev1.UnimplementedWebhookServiceServer{})
	affiliatev1.RegisterNotificationServiceServer(server, affiliatev1.UnimplementedNotificationServiceServer{})
	affiliatev1.RegisterGateServiceServer(server, affiliatev1.UnimplementedGateServiceServer{})
}

// fixture is a gateway on a real listener that calls a fake core over gRPC.
type fixture struct {
	t    *testing.T
	core *fakeCore
	url  string
	log  *logBuffer
	grpc *grpc.Server // serves the fake core
	// server serves the gateway.
	server *httptest.Server
}

// logBuffer collects what the gateway logs.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *logBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newFixture(t *testing.T, respond coreFunc, adjust ...func(*Config)) *fixture {
	t.Helper()
	f := &fixture{t: t, core: &fakeCore{respond: respond}, log: &logBuffer{}}
	listener := bufconn.Listen(1 << 20)
	f.grpc = grpc.NewServer(grpc.UnaryInterceptor(f.core.intercept), grpc.StreamInterceptor(f.core.interceptStream), grpc.MaxRecvMsgSize(32<<10))
	f.core.register(f.grpc)
	go func() { _ = f.grpc.Serve(listener) }()
	t.Cleanup(f.grpc.Stop)
	conn, err := grpc.NewClient("passthrough:///core",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	config := Config{Conn: conn, AllowHTTP: true, Log: slog.New(slog.NewTextHandler(f.log, nil))}
	for _, a := range adjust {
		a(&config)
	}
	handler, err := New(config)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	f.url, f.server = server.URL, server
	return f
}

// httpResponse is an HTTP response whose body has been read.
type httpResponse struct {
	status int
	header http.Header
	body   string
}

// errorBody is the body of an error response.
type errorBody struct {
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
	Error      string `json:"error"`
	Code       string `json:"code"`
	Details    []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"details"`
}

// do sends a request. headers contains names and values of headers in turn.
func (f *fixture) do(verb, path, body string, headers ...string) httpResponse {
	f.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(f.t.Context(), verb, f.url+path, reader)
	if err != nil {
		f.t.Fatalf("unexpected error: %v", err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return f.send(request)
}

func (f *fixture) send(request *http.Request) httpResponse {
	f.t.Helper()
	client := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		f.t.Fatalf("unexpected error: %v", err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		f.t.Fatalf("unexpected error: %v", err)
	}
	return httpResponse{response.StatusCode, response.Header, string(text)}
}

// requireError checks that the response is an error with the given status and code. It
// returns the body of the response.
func (r httpResponse) requireError(t *testing.T, status int, code string) errorBody {
	t.Helper()
	var e errorBody
	decoder := json.NewDecoder(strings.NewReader(r.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		t.Fatalf("the response %q is not an error of the API: %v", r.body, err)
	}
	if r.status != status || e.StatusCode != status || e.Code != code || e.Error != http.StatusText(status) || e.Message == "" {
		t.Errorf("status %d, want %d %s: %s", r.status, status, code, strings.TrimSpace(r.body))
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("the error has the Content-Type %q, want application/json", got)
	}
	if isValidation := code == "VALIDATION_ERROR"; (e.Details != nil) != isValidation {
		t.Errorf("the error %s has the details %v, want details: %t", code, e.Details, isValidation)
	}
	return e
}

// fields returns one line field=message for each detail. From each message it removes the
// field name at the beginning and the full stop.
func (e errorBody) fields() string {
	var lines []string
	for _, d := range e.Details {
		message := d.Message
		subject, isWhole := map[string]string{"": "The request", "body": "The body"}[d.Field]
		if !isWhole {
			subject = d.Field
		}
		if rest, ok := strings.CutPrefix(message, subject+" "); ok && strings.HasSuffix(rest, ".") {
			message = strings.TrimSuffix(rest, ".")
		}
		lines = append(lines, d.Field+"="+message)
	}
	return strings.Join(lines, "\n")
}

// coreError returns an error like those of the core. fields contains field names and
// messages of violations in turn.
func coreError(code codes.Code, reason, message string, info map[string]string, fields ...string) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: "tributary", Metadata: info}}
	if len(fields) > 0 {
		badRequest, violations := &errdetails.BadRequest{}, &affiliatev1.SpellableViolations{}
		for i := 0; i+1 < len(fields); i += 2 {
			badRequest.FieldViolations = append(badRequest.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: fields[i], Description: "For gRPC clients."})
			violations.Violations = append(violations.Violations, &affiliatev1.AdmitViolation{Field: fields[i], Message: fields[i+1]})
		}
		details = append(details, badRequest, protoadapt.MessageV1Of(violations))
	}
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// respondToAdmit returns a coreFunc that responds to Admit with the given error. All
// other calls get an empty message.
func respondToAdmit(err error) coreFunc {
	return func(_ context.Context, method string, _ proto.Message) (proto.Message, error) {
		if method == affiliatev1.GateService_Admit_FullMethodName {
			return nil, err
		}
		return nil, nil
	}
}

// requireOneCall requires that the fake core received exactly one call, of the given
// method, since the last takeCalls. It returns the call.
func requireOneCall(t *testing.T, f *fakeCore, method string) receivedCall {
	t.Helper()
	calls := f.takeCalls()
	if len(calls) != 1 || calls[0].method != method {
		t.Fatalf("the core received the calls %v, want one call of %s", calls, method)
	}
	return calls[0]
}
