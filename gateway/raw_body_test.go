package gateway

import (
	"strings"
	"testing"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// A route with a raw body passes the body on byte by byte, whatever its content type, and
// forwards the headers with its signature.
func TestRawBody_IsForwardedUnchanged(t *testing.T) {
	f := newFixture(t, nil)
	for _, body := range []string{"", "{}", ` {"a": 1, "a": 2} `, "not JSON", "\x00\xff\r\n", strings.Repeat("x", 20<<10)} {
		for _, contentType := range []string{"application/json", "text/plain", ""} {
			headers := []string{"Svix-Id", "msg_1", "Svix-Timestamp", "1", "Svix-Signature", "v1,a", "Webhook-Id", "2", "Webhook-Timestamp", "3", "Webhook-Signature", "v1,b"}
			if contentType != "" {
				headers = append(headers, "Content-Type", contentType)
			}
			if response := f.do("POST", "/webhooks/resend", body, headers...); response.status != 200 {
				t.Errorf("status %d, want 200: %s", response.status, response.body)
			}
			call := requireOneCall(t, f.core, affiliatev1.MailService_ReceiveProviderEvent_FullMethodName)
			request := call.request.(*affiliatev1.ReceiveProviderEventRequest)
			if got := string(request.GetBody().GetData()); got != body || request.GetProvider() != "resend" {
				t.Errorf("the core got the provider %q and a body of %d bytes, want resend and the same %d bytes", request.GetProvider(), len(got), len(body))
			}
			for key, want := range map[string]string{
				"svix-id": "msg_1", "svix-timestamp": "1", "svix-signature": "v1,a",
				"webhook-id": "2", "webhook-timestamp": "3", "webhook-signature": "v1,b",
			} {
				if got := call.metadata.Get(key); len(got) != 1 || got[0] != want {
					t.Errorf("the core got the metadata %s = %q, want %q", key, got, want)
				}
			}
		}
	}
}

// The fields that are neither in the body nor in the path are query parameters.
func TestRawBody_HasAQuery(t *testing.T) {
	f := newFixture(t, nil)
	const path, form = "/api/v1/notifications/unsubscribe", "List-Unsubscribe=One-Click"
	if response := f.do("POST", path+"?token=a%2Bb", form, "Content-Type", "application/x-www-form-urlencoded"); response.status != 200 {
		t.Errorf("status %d, want 200: %s", response.status, response.body)
	}
	request := requireOneCall(t, f.core, affiliatev1.NotificationService_Unsubscribe_FullMethodName).request.(*affiliatev1.UnsubscribeRequest)
	if request.GetToken() != "a+b" || string(request.GetBody().GetData()) != form || request.GetBody().GetContentType() != "application/x-www-form-urlencoded" {
		t.Errorf("the core got %v, want the token and the form", request)
	}
	for _, query := range []string{"?token=a&token=b", "?body=x", "?body.data=x", "?page=1"} {
		f.do("POST", path+query, form).requireError(t, 400, "VALIDATION_ERROR")
	}
}

func TestRawBody_LimitsApply(t *testing.T) {
	f := newFixture(t, nil)
	f.do("POST", "/webhooks/resend", strings.Repeat("x", 256<<10+1)).requireError(t, 413, "PAYLOAD_TOO_LARGE")
	f.do("POST", "/webhooks/resend?a=b", "{}").requireError(t, 400, "VALIDATION_ERROR")
	f.do("GET", "/webhooks/resend", "").requireError(t, 405, "METHOD_NOT_ALLOWED")
	f.do("POST", "/webhooks", "{}").requireError(t, 404, "NOT_FOUND")
	f.core.takeCalls()

	f.do("GET", "/api/v1/programs", "", "Svix-Id", "msg_1", "Webhook-Id", "2")
	md := requireOneCall(t, f.core, affiliatev1.ProgramService_ListPrograms_FullMethodName).metadata
	if len(md.Get("svix-id"))+len(md.Get("webhook-id")) > 0 {
		t.Error("the gateway forwards the headers of a signature on a route without a raw body")
	}
}
