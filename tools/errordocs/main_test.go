package main

import (
	"os"
	"strings"
	"testing"
)

func TestDocument_CommittedPageIsCurrent(t *testing.T) {
	source, err := os.ReadFile("../../" + protoFile)
	if err != nil {
		t.Fatal(err)
	}
	landing, err := os.ReadFile("../../" + landingFile)
	if err != nil {
		t.Fatal(err)
	}
	want, err := document(string(source), string(landing))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: run go run ./tools/errordocs", docsFile)
	}
	for _, line := range []string{
		"| `VALIDATION_ERROR` | 400 | InvalidArgument | The body, the path, the query or a header is not valid. `details` lists each fault with its field. | allowed_hosts, if the host of a link's destination is not one of these |",
		"| `RATE_LIMIT_EXCEEDED` | 429 | ResourceExhausted | The caller has reached the rate limit of the route, too many logins with the same e-mail address have failed, the user has five open streams, or the programme has five announcements in 24 hours. | retry_after, whole seconds to wait |",
		"| `RATE_LIMITED` | 429 | The address of the client has sent too many forms. The header `Retry-After` says when the next one is accepted. |",
	} {
		if !strings.Contains(want, line+"\n") {
			t.Errorf("the page does not contain\n%s", line)
		}
	}
}

func TestDocument_RejectsReasonWithoutComment(t *testing.T) {
	if _, err := document("enum ErrorReason {\n  ERROR_REASON_VALIDATION_ERROR = 1;\n}\n", ""); err == nil {
		t.Error("document returned no error for an enum value without a comment")
	}
}

func TestComments_BelongToTheNextValue(t *testing.T) {
	got := comments("// One\n// two.\nERROR_REASON_A = 1 [(error) = {\n  http_status: 1\n}];\nERROR_REASON_B = 2;\n\n// Far.\n\nERROR_REASON_C = 3;\n")
	if got["ERROR_REASON_A"] != "One two." || got["ERROR_REASON_B"] != "" || got["ERROR_REASON_C"] != "" {
		t.Errorf("comments = %q, want only %q for ERROR_REASON_A", got, "One two.")
	}
}
