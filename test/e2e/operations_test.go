package e2e_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

func testOperations(t *testing.T, sys *system) {
	anonymous := sys.client()

	t.Run("health checks need no credential", func(t *testing.T) {
		for _, path := range []string{"/api/v1/health", "/api/v1/health/ready"} {
			if got := anonymous.get(t, path).wantStatus(http.StatusOK); strings.TrimSpace(got.body) != `{"status":"ok"}` {
				t.Errorf("GET %s returns %s, want the status ok", path, got.body)
			}
			anonymous.do(t, http.MethodHead, path, nil).wantStatus(http.StatusOK)
		}
	})
	t.Run("the metrics port has metrics and health checks", func(t *testing.T) {
		getPrivate := func(path string) response { return anonymous.send(t, http.MethodGet, sys.metrics+path, nil) }
		getPrivate("/healthz").wantStatus(http.StatusOK)
		getPrivate("/servingz").wantStatus(http.StatusOK)
		getPrivate("/readyz").wantStatus(http.StatusOK)
		getPrivate("/debug/pprof/heap").wantStatus(http.StatusOK)
		getPrivate("/debug/pprof/profile?seconds=1").wantStatus(http.StatusOK)
		text := getPrivate("/metrics").wantStatus(http.StatusOK).body
		for _, name := range []string{"go_goroutines", "process_open_fds", "tributary_"} {
			if !strings.Contains(text, name) {
				t.Errorf("/metrics contains no metric %s", name)
			}
		}
	})
	t.Run("the public ports do not serve the routes of the metrics port", func(t *testing.T) {
		for _, path := range []string{"/metrics", "/healthz", "/servingz", "/readyz", "/debug/pprof/", "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"} {
			anonymous.get(t, path).wantOutcome(notFound)
			anonymous.send(t, http.MethodGet, sys.edge+path, nil).wantOutcome(notFound)
		}
	})
	t.Run("the OpenAPI document has every route", func(t *testing.T) {
		var document struct {
			Paths map[string]map[string]json.RawMessage
		}
		got := anonymous.get(t, "/api/v1/openapi.json").wantStatus(http.StatusOK)
		if err := json.Unmarshal([]byte(got.body), &document); err != nil {
			t.Fatal(err)
		}
		documented := 0
		for path := range document.Paths {
			documented += len(document.Paths[path])
		}
		all := routes(t)
		for _, r := range all {
			parameters := map[string]string{}
			for id := range unknownIDs() {
				words := strings.Split(id, "_")
				for i, word := range words[1:] {
					words[i+1] = strings.ToUpper(word[:1]) + word[1:]
				}
				parameters[id] = "{" + strings.Join(words, "") + "}"
			}
			path := strings.ReplaceAll(r.path(parameters), "/stripe", "/{processor}")
			if document.Paths[path][strings.ToLower(r.verb)] == nil {
				t.Errorf("%s is not in the document", r)
			}
		}
		if documented != len(all)+2 { // two routes have no RPC: the route of the document itself, and the collector's POST /v1/clicks
			t.Errorf("the document has %d operations, want %d", documented, len(all)+2)
		}
		for _, wrong := range integersAsStrings(got.value("components"), "components") {
			t.Errorf("an integer is documented as a string: %s", wrong)
		}
	})
}

// integersAsStrings returns the paths of the schemas that describe an integer as a
// string. The JSON mapping of protobuf does this for 64-bit integers, but the API returns
// numbers.
func integersAsStrings(value any, path string) (found []string) {
	switch value := value.(type) {
	case object:
		if format, _ := value["format"].(string); strings.HasPrefix(format, "int") && value["type"] != "integer" {
			found = append(found, path)
		}
		for name, inner := range value {
			found = append(found, integersAsStrings(inner, path+"."+name)...)
		}
	case []any:
		for _, inner := range value {
			found = append(found, integersAsStrings(inner, path)...)
		}
	}
	return found
}

// testGRPC checks that the gRPC port accepts the same credentials as REST and returns the
// same error codes.
func testGRPC(t *testing.T, sys *system) {
	conn := sys.dial(t)
	f := sys.newFixture(t, "test", rules(object{"holdPeriodDays": 0, "autoApproval": false}))
	withMetadata := func(pairs ...string) context.Context { return metadata.AppendToOutgoingContext(t.Context(), pairs...) }
	merchant := withMetadata("authorization", "Bearer "+f.merchant.access, "x-mode", "test")

	t.Run("health and reflection", func(t *testing.T) {
		got, err := healthpb.NewHealthClient(conn).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil || got.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("Check returned %v, %v; want SERVING", got, err)
		}
		services := reflectedServices(t, conn)
		for _, name := range []string{"affiliate.v1.ConversionService", "affiliate.v1.CommissionService", "grpc.health.v1.Health"} {
			if !slices.Contains(services, name) {
				t.Errorf("reflection returns the services %v, want also %s", services, name)
			}
		}
	})
	t.Run("from a conversion to its approval", func(t *testing.T) {
		amount, currency, click := int64(10_000), "usd", f.click(t)
		created, err := affiliatev1.NewConversionServiceClient(conn).ReportConversion(withMetadata("authorization", "Bearer "+f.secretKey, "x-mode", "live"),
			&affiliatev1.ReportConversionRequest{
				EventType: affiliatev1.EventType_EVENT_TYPE_PURCHASE, ExternalTransactionId: uniqueName("order"),
				AmountCents: &amount, Currency: &currency, ClickId: &click,
			})
		if err != nil || !created.GetAttributed() || created.GetMode() != affiliatev1.Mode_MODE_TEST {
			t.Fatalf("ReportConversion returned %v, %v; want an attributed conversion in test mode", created, err)
		}
		commissions := affiliatev1.NewCommissionServiceClient(conn)
		listed, err := commissions.ListCommissions(merchant, &affiliatev1.ListCommissionsRequest{ProgramId: &f.program})
		if err != nil || listed.GetTotal() != 1 || listed.GetLimit() != 20 {
			t.Fatalf("ListCommissions returned %v, %v; want the total 1 and the limit 20", listed, err)
		}
		approved, err := commissions.ApproveCommission(merchant, &affiliatev1.ApproveCommissionRequest{
			ProgramId: f.program, CommissionId: created.GetCommission().GetId(),
		})
		if err != nil || approved.GetStatus() != affiliatev1.CommissionStatus_COMMISSION_STATUS_APPROVED {
			t.Fatalf("ApproveCommission returned %v, %v; want the status approved", approved, err)
		}
		_, err = commissions.ApproveCommission(merchant, &affiliatev1.ApproveCommissionRequest{
			ProgramId: f.program, CommissionId: created.GetCommission().GetId(),
		})
		wantGRPCError(t, err, codes.FailedPrecondition, "COMMISSION_NOT_PENDING")
	})
	t.Run("errors have the same codes as over REST", func(t *testing.T) {
		programs := affiliatev1.NewProgramServiceClient(conn)
		list := func(ctx context.Context) error {
			_, err := programs.ListPrograms(ctx, &affiliatev1.ListProgramsRequest{})
			return err
		}
		wantGRPCError(t, list(t.Context()), codes.Unauthenticated, "UNAUTHORIZED")
		wantGRPCError(t, list(withMetadata("authorization", "Bearer garbage")), codes.Unauthenticated, "UNAUTHORIZED")
		wantGRPCError(t, list(withMetadata("authorization", "Bearer "+f.partner.access)), codes.PermissionDenied, "FORBIDDEN")
		wantGRPCError(t, list(withMetadata("authorization", "Bearer "+f.secretKey)), codes.PermissionDenied, "FORBIDDEN")
		wantGRPCError(t, list(withMetadata("authorization", "Bearer "+f.merchant.access, "x-mode", "prod")), codes.InvalidArgument, "VALIDATION_ERROR")

		_, err := programs.GetProgram(withMetadata("authorization", "Bearer "+f.merchant.access), &affiliatev1.GetProgramRequest{ProgramId: f.program})
		wantGRPCError(t, err, codes.NotFound, "NOT_FOUND") // without x-mode the mode is live, and the programme is in test mode
		_, err = programs.CreateProgram(merchant, &affiliatev1.CreateProgramRequest{})
		if got := wantGRPCError(t, err, codes.InvalidArgument, "VALIDATION_ERROR"); len(got) != 1 || got[0].GetField() != "name" {
			t.Errorf("CreateProgram returned the field violations %v, want one for name", got)
		}
		_, err = affiliatev1.NewConversionServiceClient(conn).ReportConversion(t.Context(), &affiliatev1.ReportConversionRequest{})
		wantGRPCError(t, err, codes.Unauthenticated, "INVALID_API_KEY")
	})
	t.Run("an update over gRPC needs a field mask", func(t *testing.T) {
		programs := affiliatev1.NewProgramServiceClient(conn)
		_, err := programs.UpdateProgram(merchant, &affiliatev1.UpdateProgramRequest{ProgramId: f.program, Name: "New"})
		wantGRPCError(t, err, codes.InvalidArgument, "VALIDATION_ERROR")
		f.merchant.get(t, f.programPath()).wantStatus(http.StatusOK)
	})
	t.Run("the response has the request id", func(t *testing.T) {
		var header metadata.MD
		_, err := affiliatev1.NewHealthServiceClient(conn).CheckLiveness(withMetadata("x-request-id", "from-a-trusted-host"), &affiliatev1.CheckLivenessRequest{}, grpc.Header(&header))
		if got := header.Get("x-request-id"); err != nil || !slices.Equal(got, []string{"from-a-trusted-host"}) {
			t.Errorf("CheckLiveness returned the x-request-id %v and the error %v, want from-a-trusted-host", got, err)
		}
	})
}

func reflectedServices(t *testing.T, conn *grpc.ClientConn) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	request := &reflectionpb.ServerReflectionRequest{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}}
	if err := stream.Send(request); err != nil {
		t.Fatal(err)
	}
	got, err := stream.Recv()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, service := range got.GetListServicesResponse().GetService() {
		names = append(names, service.GetName())
	}
	return names
}

// wantGRPCError checks the status and the error code of a gRPC error, and returns its
// field violations.
func wantGRPCError(t *testing.T, err error, code codes.Code, reason string) []*errdetails.BadRequest_FieldViolation {
	t.Helper()
	st := status.Convert(err)
	var got string
	var violations []*errdetails.BadRequest_FieldViolation
	for _, detail := range st.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			got = detail.GetReason()
		case *errdetails.BadRequest:
			violations = detail.GetFieldViolations()
			for _, v := range violations {
				if wrong := (fieldError{v.GetField(), v.GetDescription()}).problem(true, ""); wrong != "" {
					t.Errorf("gRPC field violation: %s: %q for the field %q", wrong, v.GetDescription(), v.GetField())
				}
			}
		}
	}
	if st.Code() != code || got != reason {
		t.Errorf("got %v %s (%v), want %v %s", st.Code(), got, err, code, reason)
	}
	return violations
}

// testLogs checks the log of all previous steps of the main use case: each line is JSON,
// and there are no secrets, personal data or errors.
func testLogs(t *testing.T, sys *system) {
	merchant := sys.newMerchant(t)
	secret, email := merchant.createSecretKey(t), merchant.email
	sys.client().withCredential(secret).withHeader("X-Request-Id", "find-me-in-the-log").fromAddress("203.0.113.77").
		post(t, "/api/v1/conversions", object{"event_type": "purchase", "customer_email": "buyer@home.example"})
	logs := sys.logs.String()
	if !strings.Contains(logs, `"request_id":"find-me-in-the-log"`) {
		t.Error("the request id is not in the logs")
	}
	for line := range strings.Lines(logs) {
		if !json.Valid([]byte(line)) {
			t.Errorf("a line of the log is not JSON: %s", line)
		}
	}
	for name, secret := range map[string]string{
		"a password": password, "an access token": merchant.access, "a refresh token": merchant.refresh, "a secret key": secret,
		"an e-mail address": email, "a buyer's address": "buyer@home.example", "a full IP address": "203.0.113.77", "an Authorization header": "Bearer ",
	} {
		if strings.Contains(logs, secret) {
			t.Errorf("the logs contain %s", name)
		}
	}
	for line := range strings.Lines(logs) {
		if strings.Contains(line, `"level":"ERROR"`) {
			t.Errorf("an error was logged: %s", line)
		}
	}
}
