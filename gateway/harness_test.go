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

// coreFunc is the behaviour of the fake core. If it returns neither a message nor an
// error, the fake core responds with an empty message.
type coreFunc func(ctx context.Context, method string, request proto.Message) (proto.Message, error)

// received is one call that the fake core received.
type received struct {
	method   string
	request  proto.Message
	metadata metadata.MD
}

// fakeCore is a gRPC server with every service of the contract. Its interceptor records
// each call and responds with the result of respond, or with an empty message.
type fakeCore struct {
	mu      sync.Mutex
	calls   []received
	respond coreFunc
	// pieces, failure and header are the content, the error and the metadata of a
	// download.
	pieces  []string
	failure error
	header  metadata.MD
}

func (f *fakeCore) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, _ grpc.UnaryHandler) (any, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	message := request.(proto.Message)
	f.mu.Lock()
	f.calls = append(f.calls, received{info.FullMethod, proto.Clone(message), md.Copy()})
	answer := f.respond
	f.mu.Unlock()
	if answer != nil {
		reply, err := answer(ctx, info.FullMethod, message)
		if reply != nil || err != nil {
			return reply, err
		}
	}
	return emptyReply(info.FullMethod), nil
}

// interceptStream is intercept for downloads. It sends pieces, or one empty piece, and
// then returns the error of respond or failure.
func (f *fakeCore) interceptStream(_ any, stream grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	request := emptyMessage(methodOf(info.FullMethod).Input())
	if err := stream.RecvMsg(request); err != nil {
		return err
	}
	md, _ := metadata.FromIncomingContext(stream.Context())
	f.mu.Lock()
	f.calls = append(f.calls, received{info.FullMethod, request, md.Copy()})
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
	return failure
}

func emptyReply(method string) proto.Message { return emptyMessage(methodOf(method).Output()) }

func methodOf(fullMethod string) protoreflect.MethodDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(fullMethod, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		panic(err)
	}
	return d.(protoreflect.MethodDescriptor)
}

func emptyMessage(of protoreflect.MessageDescriptor) proto.Message {
	kind, err := protoregistry.GlobalTypes.FindMessageByName(of.FullName())
	if err != nil {
		panic(err)
	}
	return kind.New().Interface()
}

// takeCalls returns the calls since its last call.
func (f *fakeCore) takeCalls() []received {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

func (f *fakeCore) register(server grpc.ServiceRegistrar) {
	affiliatev1.RegisterHealthServiceServer(server, affiliatev1.UnimplementedHealthServiceServer{})
	affiliatev1.RegisterAccountServiceServer(server, affiliatev1.UnimplementedAccountServiceServer{})
	affiliatev1.RegisterWorkspaceServiceServer(server, affiliatev1.UnimplementedWorkspaceServiceServer{})
	affiliatev1.RegisterProgramServiceServer(server, affiliatev1.UnimplementedProgramServiceServer{})
	affiliatev1.RegisterParticipantServiceServer(server, affiliatev1.UnimplementedParticipantServiceServer{})
	affiliatev1.RegisterPartnerServiceServer(server, affiliatev1.UnimplementedPartnerServiceServer{})
	affiliatev1.RegisterLinkServiceServer(server, affiliatev1.UnimplementedLinkServiceServer{})
	affiliatev1.RegisterPromoCodeServiceServer(server, affiliatev1.UnimplementedPromoCodeServiceServer{})
	affiliatev1.RegisterConversionServiceServer(server, affiliatev1.UnimplementedConversionServiceServer{})
	affiliatev1.RegisterCommissionServiceServer(server, affiliatev1.UnimplementedCommissionServiceServer{})
	affiliatev1.RegisterAttributionServiceServer(server, affiliatev1.UnimplementedAttributionServiceServer{})
	affiliatev1.RegisterLedgerServiceServer(server, affiliatev1.UnimplementedLedgerServiceServer{})
	affiliatev1.RegisterPayoutServiceServer(server, affiliatev1.UnimplementedPayoutServiceServer{})
	affiliatev1.RegisterFraudServiceServer(server, affiliatev1.UnimplementedFraudServiceServer{})
	affiliatev1.RegisterWebhookServiceServer(server, affiliatev1.UnimplementedWebhookServiceServer{})
	affiliatev1.RegisterGateServiceServer(server, affiliatev1.UnimplementedGateServiceServer{})
}

// rig is a test server: a gateway on a real listener, connected to a fake core over gRPC.
type rig struct {
	t    *testing.T
	core *fakeCore
	url  string
	log  *syncBuffer
	grpc *grpc.Server
	// server serves the gateway.
	server *httptest.Server
}

type syncBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newRig(t *testing.T, answer coreFunc, adjust ...func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, core: &fakeCore{respond: answer}, log: &syncBuffer{}}
	listener := bufconn.Listen(1 << 20)
	r.grpc = grpc.NewServer(grpc.UnaryInterceptor(r.core.intercept), grpc.StreamInterceptor(r.core.interceptStream), grpc.MaxRecvMsgSize(32<<10))
	r.core.register(r.grpc)
	go func() { _ = r.grpc.Serve(listener) }()
	t.Cleanup(r.grpc.Stop)
	conn, err := grpc.NewClient("passthrough:///core",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	config := Config{Conn: conn, AllowHTTP: true, Log: slog.New(slog.NewTextHandler(r.log, nil))}
	for _, a := range adjust {
		a(&config)
	}
	handler, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	r.url, r.server = server.URL, server
	return r
}

// httpResponse is an HTTP response whose body has been read.
type httpResponse struct {
	status int
	header http.Header
	body   string
}

type envelope struct {
	StatusCode int    `json:"statusCode"`
	Message    string `json:"message"`
	Error      string `json:"error"`
	Code       string `json:"code"`
	Details    []struct {
		Field   string `json:"field"`
		Message string `json:"message"`
	} `json:"details"`
}

// do sends a request. headers alternates names and values.
func (r *rig) do(verb, path, body string, headers ...string) httpResponse {
	r.t.Helper()
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), verb, r.url+path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	return r.send(request)
}

func (r *rig) send(request *http.Request) httpResponse {
	r.t.Helper()
	client := &http.Client{Timeout: 20 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return httpResponse{response.StatusCode, response.Header, string(text)}
}

// requireError checks that the response is an error with the given status and code. It
// returns the envelope.
func (a httpResponse) requireError(t *testing.T, status int, code string) envelope {
	t.Helper()
	var e envelope
	decoder := json.NewDecoder(strings.NewReader(a.body))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&e); err != nil {
		t.Fatalf("no envelope: %v in %q", err, a.body)
	}
	if a.status != status || e.StatusCode != status || e.Code != code || e.Error != http.StatusText(status) || e.Message == "" {
		t.Errorf("got %d %s, want %d %s", a.status, strings.TrimSpace(a.body), status, code)
	}
	if got := a.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("content type %q", got)
	}
	if (e.Details != nil) != (code == "VALIDATION_ERROR") {
		t.Errorf("details of %s: %v", code, e.Details)
	}
	return e
}

// fields returns the details as field=message lines. It removes the field name and the
// full stop from each sentence.
func (e envelope) fields() string {
	var lines []string
	for _, d := range e.Details {
		message := d.Message
		subject, special := map[string]string{"": "The request", "body": "The body"}[d.Field]
		if !special {
			subject = d.Field
		}
		if rest, ok := strings.CutPrefix(message, subject+" "); ok && strings.HasSuffix(rest, ".") {
			message = strings.TrimSuffix(rest, ".")
		}
		lines = append(lines, d.Field+"="+message)
	}
	return strings.Join(lines, "\n")
}

// coreError returns an error as the core's error interceptor creates it.
func coreError(code codes.Code, reason, message string, info map[string]string, fields ...string) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: reason, Domain: "tributary", Metadata: info}}
	if len(fields) > 0 {
		bad, spellable := &errdetails.BadRequest{}, &affiliatev1.SpellableViolations{}
		for i := 0; i+1 < len(fields); i += 2 {
			bad.FieldViolations = append(bad.FieldViolations, &errdetails.BadRequest_FieldViolation{Field: fields[i], Description: "For gRPC callers."})
			spellable.Violations = append(spellable.Violations, &affiliatev1.AdmitViolation{Field: fields[i], Message: fields[i+1]})
		}
		details = append(details, bad, protoadapt.MessageV1Of(spellable))
	}
	st, err := status.New(code, message).WithDetails(details...)
	if err != nil {
		panic(err)
	}
	return st.Err()
}

// admitWith returns a coreFunc that responds to Admit with the given error. All other
// calls get an empty message.
func admitWith(verdict error) coreFunc {
	return func(_ context.Context, method string, _ proto.Message) (proto.Message, error) {
		if method == affiliatev1.GateService_Admit_FullMethodName {
			return nil, verdict
		}
		return nil, nil
	}
}

func onlyCall(t *testing.T, f *fakeCore, method string) received {
	t.Helper()
	calls := f.takeCalls()
	if len(calls) != 1 || calls[0].method != method {
		t.Fatalf("the core was called %d times: %v", len(calls), calls)
	}
	return calls[0]
}
