package gateway

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

const exportPath = "/api/v1/workspace/audit-log/export"

func TestDownload_StreamsPieces(t *testing.T) {
	r := newRig(t, nil)
	r.core.pieces = []string{"id,at\r\n", strings.Repeat("x", 20<<10), "\r\nend\r\n"}
	r.core.header = metadata.Pairs("content-disposition", `attachment; filename="a.csv"`, "ratelimit", `"general";r=1;t=60`, "x-secret", "no")
	response := r.do(http.MethodGet, exportPath+"?action=program.*", "", "X-Mode", "test")
	if response.status != http.StatusOK || response.body != strings.Join(r.core.pieces, "") {
		t.Errorf("%d, %d bytes", response.status, len(response.body))
	}
	for header, want := range map[string]string{
		"Content-Type": "text/csv; charset=utf-8", "Content-Disposition": `attachment; filename="a.csv"`,
		"Ratelimit": `"general";r=1;t=60`, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Secret": "",
	} {
		if got := response.header.Get(header); got != want {
			t.Errorf("%s is %q", header, got)
		}
	}
	call := onlyCall(t, r.core, affiliatev1.WorkspaceService_ExportAuditLog_FullMethodName)
	if got := call.request.(*affiliatev1.ExportAuditLogRequest).GetAction(); got != "program.*" || call.metadata.Get("x-mode")[0] != "test" {
		t.Errorf("the core got %q in %v", got, call.metadata.Get("x-mode"))
	}
	if head := r.do(http.MethodHead, exportPath, ""); head.status != http.StatusOK || head.body != "" {
		t.Errorf("HEAD: %d %q", head.status, head.body)
	}
}

func TestDownload_RefusalHasEnvelope(t *testing.T) {
	r := newRig(t, admitWith(nil))
	r.core.header = metadata.Pairs("content-disposition", `attachment; filename="a.csv"`)
	r.core.failure = coreError(codes.PermissionDenied, "FORBIDDEN", "No.", nil)
	response := r.do(http.MethodGet, exportPath, "")
	response.requireError(t, http.StatusForbidden, "FORBIDDEN")
	if response.header.Get("Content-Disposition") != "" {
		t.Error("an error response must not be an attachment")
	}
	r.do(http.MethodGet, exportPath+"?nonsense=1", "").requireError(t, http.StatusBadRequest, "VALIDATION_ERROR")
}

// A truncated file must not look complete.
func TestDownload_LateFailureClosesConnection(t *testing.T) {
	r := newRig(t, nil)
	r.core.pieces = []string{strings.Repeat("x", 20<<10)} // more than is buffered
	r.core.failure = status.Error(codes.Unavailable, "lost")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url+exportPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var body strings.Builder
	buffer := make([]byte, 64)
	for err == nil {
		var n int
		n, err = response.Body.Read(buffer)
		body.Write(buffer[:n])
	}
	if !strings.Contains(err.Error(), "unexpected EOF") {
		t.Errorf("read %q and then %v", body.String(), err)
	}
}

func TestBulkRequest_AllItemsFailedHasResults(t *testing.T) {
	results := &affiliatev1.BulkParticipantsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 1, Failed: 1},
		Results: []*affiliatev1.BulkParticipantResult{{ParticipantId: "p", StatusCode: 404, Code: proto.String("NOT_FOUND")}},
	}
	r := newRig(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		st, err := status.Convert(coreError(codes.FailedPrecondition, "BULK_ALL_FAILED", "None.", nil)).WithDetails(protoadapt.MessageV1Of(results))
		if err != nil {
			t.Error(err)
		}
		return nil, st.Err()
	})
	response := r.do(http.MethodPatch, "/api/v1/programs/p/partners/bulk-approve", `{"participantIds":[]}`)
	want := `{"statusCode":422,"message":"None.","error":"Unprocessable Entity","code":"BULK_ALL_FAILED",` +
		`"summary":{"total":1,"succeeded":0,"failed":1},` +
		`"results":[{"participantId":"p","success":false,"statusCode":404,"status":null,"code":"NOT_FOUND","message":null}]}` + "\n"
	if response.status != http.StatusUnprocessableEntity || response.body != want {
		t.Errorf("%d %s", response.status, response.body)
	}
}
