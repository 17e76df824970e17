package e2e_test

import (
	"compress/gzip"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/redistest"
)

const (
	partnerExportPath  = "/api/v1/partner/export"
	merchantExportPath = "/api/v1/merchant/account/export"
	// examplePublicURL is the setting TRIBUTARY_PUBLIC_URL of the tests.
	examplePublicURL = "https://api.example"
)

func (f fixture) participantExportPath() string { return f.participantPath() + "/export" }

// exportLink checks a response with a link. It returns the path of the link.
func (sys *system) exportLink(t *testing.T, r response, kind string) (path string) {
	t.Helper()
	r.wantStatus(http.StatusOK)
	path, ok := strings.CutPrefix(r.text("download_url"), examplePublicURL)
	if !ok || !strings.HasPrefix(path, "/api/v1/exports/") {
		t.Fatalf("the download_url is %s, want a link below %s", r.text("download_url"), examplePublicURL)
	}
	if want := "tributary-" + kind + "-" + sys.clock.now().UTC().Format(time.DateOnly) + ".json"; r.text("filename") != want {
		t.Errorf("the filename is %s, want %s", r.text("filename"), want)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(r.body), &fields); err != nil || len(fields) != 3 {
		t.Errorf("the response has the fields %v, want download_url, expires_at and filename", fields)
	}
	return path
}

// testExports exports a partner, a participant and a workspace through the REST API.
func testExports(t *testing.T, sys *system) {
	f := sys.newFixture(t, "test", nil)
	f.earnCommission(t)
	stranger := sys.newFixture(t, "test", nil)
	stranger.earnCommission(t)

	paths := map[string]string{
		"partner":     sys.exportLink(t, f.partner.post(t, partnerExportPath, nil), "partner"),
		"participant": sys.exportLink(t, f.merchant.post(t, f.participantExportPath(), nil), "participant"),
		"merchant":    sys.exportLink(t, f.merchant.post(t, merchantExportPath, nil), "merchant"),
	}
	for kind, path := range paths {
		got := sys.client().get(t, path).wantStatus(http.StatusOK)
		for header, want := range map[string]string{
			"Content-Type": "application/json", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
			"Content-Disposition": `attachment; filename="tributary-` + kind + "-" + sys.clock.now().UTC().Format(time.DateOnly) + `.json"`,
		} {
			if got.header.Get(header) != want {
				t.Errorf("%s: the header %s is %q, want %q", kind, header, got.header.Get(header), want)
			}
		}
		if got.text("subject.type") != kind || got.length("commissions") != 1 || got.length("clicks") == 0 {
			t.Errorf("%s: the bundle is %.500s, want one with the commission and the click", kind, got.body)
		}
		for _, foreign := range []string{stranger.participant, stranger.program, stranger.partner.email, stranger.merchant.workspace, stranger.code} {
			if strings.Contains(got.body, foreign) {
				t.Errorf("%s: the bundle contains %s of another workspace", kind, foreign)
			}
		}
		token := path[strings.LastIndex(path, "/")+1:]
		if strings.Contains(sys.logs.String(), token) {
			t.Errorf("%s: the logs contain the token", kind)
		}
		sys.client().withHeader("Accept-Encoding", "gzip").do(t, http.MethodHead, path, nil).wantStatus(http.StatusOK)
	}
	log := f.merchant.get(t, "/api/v1/workspace/audit-log?action=participant.export").wantStatus(http.StatusOK)
	if log.number("total") != 1 || log.text("data.0.resourceId") != f.participant {
		t.Errorf("the audit log has %s, want one export of the participant", log.body)
	}
	f.merchant.post(t, stranger.participantExportPath(), nil).wantOutcome(foreignToExport)
	f.merchant.inMode("live").post(t, f.participantExportPath(), nil).wantOutcome(noParticipant)
	sys.exec(t, `update participants set erased_at = now() where id = $1`, f.participant)
	f.merchant.post(t, f.participantExportPath(), nil).wantError(http.StatusConflict, "PARTICIPANT_ERASED")
	sys.client().get(t, "/api/v1/exports/exp_unknown").wantOutcome(noExport)
	f.merchant.post(t, merchantExportPath, object{"x": 1}).wantError(http.StatusBadRequest, "VALIDATION_ERROR", "x")
}

// testExportsEncoding downloads a bundle without the decompression of the HTTP client.
func testExportsEncoding(t *testing.T, sys *system) {
	partner := sys.newPartner(t)
	path := sys.exportLink(t, partner.post(t, partnerExportPath, nil), "partner")
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	download := func(t *testing.T, path string, accept ...string) response {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, sys.api+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, value := range accept {
			request.Header.Add("Accept-Encoding", value)
		}
		got, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = got.Body.Close() }()
		var body io.Reader = got.Body
		if got.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(got.Body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return response{t: t, status: got.StatusCode, header: got.Header, body: string(text)}
	}
	plain := download(t, path, "identity").body
	if !json.Valid([]byte(plain)) || !strings.Contains(plain, partner.email) {
		t.Errorf("the bundle is %.300s, want a JSON document with the partner's address", plain)
	}
	for _, tc := range []struct {
		accept   []string
		encoding string
	}{
		{[]string{"gzip"}, "gzip"},
		{[]string{"identity"}, ""},
		{[]string{""}, ""},
		{[]string{"br, deflate"}, ""},
		{[]string{"*"}, "gzip"},
		{[]string{"gzip;q=0"}, ""},
		{[]string{"br", "gzip"}, "gzip"},
		{[]string{"gzip;q=0.2, identity;q=0.5"}, ""},
	} {
		got := download(t, path, tc.accept...)
		if got.status != http.StatusOK || got.header.Get("Content-Encoding") != tc.encoding || got.body != plain {
			t.Errorf("Accept-Encoding %q: the status is %d and the encoding %q, want 200, %q and the same text", tc.accept, got.status, got.header.Get("Content-Encoding"), tc.encoding)
		}
		if vary := strings.Join(got.header.Values("Vary"), ", "); !strings.Contains(vary, "Accept-Encoding") {
			t.Errorf("Accept-Encoding %q: the header Vary is %q", tc.accept, vary)
		}
	}
	for _, tc := range []struct {
		path   string
		accept []string
		want   string
	}{
		{path, nil, "Accept-Encoding must be present."},
		{path, []string{"identity;q=0, br"}, "Accept-Encoding must accept gzip or identity."},
		{"/api/v1/exports/exp_unknown", nil, "EXPORT_EXPIRED"},
	} {
		got := download(t, tc.path, tc.accept...)
		wantStatus := http.StatusBadRequest
		if tc.want == "EXPORT_EXPIRED" {
			wantStatus = http.StatusNotFound
		}
		if got.status != wantStatus || !strings.Contains(got.body, tc.want) {
			t.Errorf("%s with Accept-Encoding %q: the response is %d %s, want %d and %q", tc.path, tc.accept, got.status, got.body, wantStatus, tc.want)
		}
	}
}

// testExportsOverGRPC exports and downloads through the gRPC port.
func testExportsOverGRPC(t *testing.T, sys *system) {
	conn, err := grpc.NewClient(sys.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	partner, service := sys.newPartner(t), affiliatev1.NewExportServiceClient(conn)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", partner.header.Get("Authorization"))
	link, err := service.ExportPartnerAccount(ctx, &affiliatev1.ExportPartnerAccountRequest{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = service.ExportMerchantAccount(ctx, &affiliatev1.ExportMerchantAccountRequest{})
	wantGRPCError(t, err, codes.PermissionDenied, "FORBIDDEN")
	download := func(token string, accept ...string) (text string, err error) {
		stream, err := service.DownloadExport(metadata.AppendToOutgoingContext(t.Context(), accept...), &affiliatev1.DownloadExportRequest{Token: token})
		if err != nil {
			return "", err
		}
		for {
			piece, err := stream.Recv()
			if err == io.EOF { //nolint:errorlint // Recv returns io.EOF itself
				return text, nil
			}
			if err != nil {
				return "", err
			}
			text += string(piece.GetData())
		}
	}
	token := link.GetDownloadUrl()[strings.LastIndex(link.GetDownloadUrl(), "/")+1:]
	text, err := download(token, "x-accept-encoding", "identity")
	if err != nil || !json.Valid([]byte(text)) || !strings.Contains(text, partner.email) {
		t.Errorf("the download returned %.200s, %v", text, err)
	}
	_, err = download(token)
	wantGRPCError(t, err, codes.InvalidArgument, "VALIDATION_ERROR")
	_, err = download("exp_unknown", "x-accept-encoding", "identity")
	wantGRPCError(t, err, codes.NotFound, "EXPORT_EXPIRED")
}

// TestExports_LargeWorkspaceIsMailed exports a workspace with more than 10,000 records. The
// link comes with a mail.
func TestExports_LargeWorkspaceIsMailed(t *testing.T) {
	t.Parallel()
	sys, server := startWithMail(t, setup{redis: redistest.New(t)})
	f := sys.newFixture(t, "test", nil)
	sys.exec(t, `
		insert into audit_log (workspace_id, id, mode, at, actor, action, resource_type, resource_id)
		select $1, gen_random_uuid(), 'test', now() - n * interval '1 second', 'system', 'test.fill', 'test', $1 from generate_series(1, 10001) n`, f.merchant.workspace)
	queued := f.merchant.post(t, merchantExportPath, nil).wantStatus(http.StatusAccepted)
	if queued.body != `{"status":"processing"}` {
		t.Errorf("the response is %s, want only the status", queued.body)
	}
	mail := awaitMail(t, server, 1, f.merchant.email, "Your export is ready")
	at := strings.Index(mail.Text, examplePublicURL+"/api/v1/exports/exp_")
	if at < 0 {
		t.Fatalf("the mail has no link:\n%s", mail.Text)
	}
	path := strings.TrimPrefix(strings.Fields(mail.Text[at:])[0], examplePublicURL)
	bundle := sys.client().get(t, path).wantStatus(http.StatusOK)
	if bundle.length("audit") < 10_001 || bundle.text("subject.id") != f.merchant.workspace {
		t.Errorf("the bundle has %d entries of the audit log, want more than 10,000", bundle.length("audit"))
	}
	token := path[strings.LastIndex(path, "/")+1:]
	if strings.Contains(sys.logs.String(), token) {
		t.Error("the logs contain the token of the mail")
	}
	sys.awaitAllMails(t)
	entries := f.merchant.get(t, logPath+"?type=export_ready").wantStatus(http.StatusOK)
	entry := f.merchant.get(t, logPath+"/"+entries.text("data.0.id")).wantStatus(http.StatusOK)
	if !strings.Contains(entry.text("text"), "/api/v1/exports/[redacted]") || strings.Contains(entry.body, token) {
		t.Errorf("the notification log shows %s, want the link with [redacted]", entry.body)
	}
	if feed := f.merchant.get(t, "/api/v1/notifications?category=gdpr").wantStatus(http.StatusOK); feed.number("total") != 1 || feed.text("data.0.type") != "gdpr.export_ready" {
		t.Errorf("the notifications are %s, want one about the export", feed.body)
	}
	sys.exportLink(t, f.merchant.post(t, merchantExportPath, nil), "merchant")
	if n := sys.count(t, `select count(*) from exports`); n != 1 {
		t.Errorf("there are %d bundles, want 1", n)
	}
}

// checkExportLimit sends as many requests for an export as an account may send in an hour.
func checkExportLimit(t *testing.T, sys *system, f fixture, other caller) {
	t.Helper()
	session := f.merchant.login(t)
	for i := range 10 {
		if got := session.post(t, merchantExportPath, nil).wantStatus(http.StatusOK); i == 9 && got.remaining() != 0 {
			t.Errorf("%d exports remain after ten, want 0", got.remaining())
		}
	}
	limited := session.post(t, merchantExportPath, nil).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	if got := limited.header.Get("Retry-After"); got == "" || got == "0" {
		t.Errorf("Retry-After is %q", got)
	}
	// The kinds of exports share the limit of the account. Other accounts have their own.
	session.inMode("test").post(t, f.participantExportPath(), nil).wantError(http.StatusTooManyRequests, "RATE_LIMIT_EXCEEDED")
	other.login(t).post(t, merchantExportPath, nil).wantStatus(http.StatusOK)
	sys.clock.advance(time.Hour + time.Minute)
	f.merchant.login(t).post(t, merchantExportPath, nil).wantStatus(http.StatusOK)
}
