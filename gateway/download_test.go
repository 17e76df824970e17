package gateway

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

const exportPath = "/api/v1/workspace/audit-log/export"

func TestDownload_StreamsPieces(t *testing.T) {
	f := newFixture(t, nil)
	f.core.pieces = []string{"id,at\r\n", strings.Repeat("x", 20<<10), "\r\nend\r\n"}
	f.core.header = metadata.Pairs("content-disposition", `attachment; filename="a.csv"`, "ratelimit", `"general";r=1;t=60`, "x-secret", "no")
	response := f.do(http.MethodGet, exportPath+"?action=program.*", "", "X-Mode", "test")
	if response.status != http.StatusOK || response.body != strings.Join(f.core.pieces, "") {
		t.Errorf("status %d with %d bytes, want 200 with all pieces", response.status, len(response.body))
	}
	for header, want := range map[string]string{
		"Content-Type": "text/csv; charset=utf-8", "Content-Disposition": `attachment; filename="a.csv"`,
		"Ratelimit": `"general";r=1;t=60`, "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "X-Secret": "",
	} {
		if got := response.header.Get(header); got != want {
			t.Errorf("the header %s is %q, want %q", header, got, want)
		}
	}
	call := requireOneCall(t, f.core, affiliatev1.WorkspaceService_ExportAuditLog_FullMethodName)
	if got := call.request.(*affiliatev1.ExportAuditLogRequest).GetAction(); got != "program.*" || call.metadata.Get("x-mode")[0] != "test" {
		t.Errorf("the core got the action %q in the mode %v, want program.* in test", got, call.metadata.Get("x-mode"))
	}
	if head := f.do(http.MethodHead, exportPath, ""); head.status != http.StatusOK || head.body != "" {
		t.Errorf("HEAD: status %d with the body %q, want 200 without a body", head.status, head.body)
	}
}

func TestDownload_FailureBeforeFirstPieceIsErrorResponse(t *testing.T) {
	f := newFixture(t, respondToAdmit(nil))
	f.core.header = metadata.Pairs("content-disposition", `attachment; filename="a.csv"`)
	f.core.failure = coreError(codes.PermissionDenied, "FORBIDDEN", "No.", nil)
	response := f.do(http.MethodGet, exportPath, "")
	response.requireError(t, http.StatusForbidden, "FORBIDDEN")
	if response.header.Get("Content-Disposition") != "" {
		t.Error("the error response has the header Content-Disposition")
	}
	f.do(http.MethodGet, exportPath+"?nonsense=1", "").requireError(t, http.StatusBadRequest, "VALIDATION_ERROR")
}

// If the core fails after the first piece, the client must see that the file is
// truncated.
func TestDownload_LateFailureClosesConnection(t *testing.T) {
	f := newFixture(t, nil)
	f.core.pieces = []string{strings.Repeat("x", 20<<10)} // more than net/http buffers
	f.core.failure = status.Error(codes.Unavailable, "lost")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+exportPath, nil)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatalf("unexpected error: %v", err)
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
		t.Errorf("read %d bytes and then the error %v, want unexpected EOF", body.Len(), err)
	}
}

// The memory of a download does not grow while the client does not read. The call to the
// core ends after some time.
func TestDownload_EndsIfClientDoesNotRead(t *testing.T) {
	f := newFixture(t, nil)
	f.server.Config.Handler.(*gateway).pieceTimeout = 100 * time.Millisecond
	f.core.pieces = slices.Repeat([]string{strings.Repeat("x", 30<<10)}, 10_000) // more than the buffers of the network hold
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(f.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: gateway\r\n\r\n", exportPath); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, make([]byte, 100)); err != nil { // the download has begun
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { f.grpc.GracefulStop(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(20 * time.Second):
		t.Error("the call to the core has not ended")
	}
	if received, err := io.Copy(io.Discard, conn); received >= 300<<20 {
		t.Errorf("the client has received the whole download, %v", err)
	}
}

func TestBulkRequest_ErrorHasResultsIfAllItemsFail(t *testing.T) {
	results := &affiliatev1.BulkParticipantsResponse{
		Summary: &affiliatev1.BulkSummary{Total: 1, Failed: 1},
		Results: []*affiliatev1.BulkParticipantResult{{ParticipantId: "p", StatusCode: 404, Code: proto.String("NOT_FOUND")}},
	}
	f := newFixture(t, func(context.Context, string, proto.Message) (proto.Message, error) {
		st, err := status.Convert(coreError(codes.FailedPrecondition, "BULK_ALL_FAILED", "None.", nil)).WithDetails(protoadapt.MessageV1Of(results))
		if err != nil {
			t.Errorf("adding the results to the status: %v", err)
		}
		return nil, st.Err()
	})
	response := f.do(http.MethodPatch, "/api/v1/programs/p/partners/bulk-approve", `{"participantIds":[]}`)
	want := `{"statusCode":422,"message":"None.","error":"Unprocessable Entity","code":"BULK_ALL_FAILED",` +
		`"summary":{"total":1,"succeeded":0,"failed":1},` +
		`"results":[{"participantId":"p","success":false,"statusCode":404,"status":null,"code":"NOT_FOUND","message":null}]}` + "\n"
	if response.status != http.StatusUnprocessableEntity || response.body != want {
		t.Errorf("status %d with the body\n%s\nwant 422 with\n%s", response.status, response.body, want)
	}
}

// When the process stops, streams of events end without an error, so that their clients
// connect to another process. Downloads continue.
func TestEventStream_EndsWhenProcessStops(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	f := newFixture(t, nil, func(c *Config) { c.Stopping = stopping })
	f.core.pieces, f.core.endless = []string{"event: ready\n\n"}, true
	open := func(path string) io.Reader {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, f.url+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		if _, err := io.ReadFull(response.Body, make([]byte, len(f.core.pieces[0]))); err != nil {
			t.Fatal(err)
		}
		return response.Body
	}
	download, streams := open(exportPath), []io.Reader{open("/api/v1/notifications/stream"), open("/api/v1/partner/notifications/stream")}
	stop()
	for _, stream := range streams {
		if rest, err := io.ReadAll(stream); err != nil || len(rest) > 0 {
			t.Errorf("the stream ended with %q and %v, want its end", rest, err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := io.ReadAll(download)
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Errorf("the download ended with %v, want it to continue", err)
	case <-time.After(50 * time.Millisecond):
	}
	if log := f.log.String(); log != "" {
		t.Errorf("the gateway logged %s, want nothing", log)
	}
	f.grpc.Stop()
	if err := <-ended; err == nil {
		t.Error("a download whose core has stopped looks complete")
	}
}
