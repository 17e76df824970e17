package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/commissiontest"
	"github.com/tributary-hq/tributary/affiliate/fraud"
)

func currentDocument(t *testing.T) string {
	t.Helper()
	text, err := document(page)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestDocument_CommittedPageIsCurrent(t *testing.T) {
	got, err := os.ReadFile("../../" + docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != currentDocument(t) {
		t.Errorf("%s is out of date: run go run ./tools/contractdocs", docsFile)
	}
}

func TestConsolePermissions_CommittedFileIsCurrent(t *testing.T) {
	want, err := consolePermissions()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + consoleFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: run go run ./tools/contractdocs", consoleFile)
	}
	for _, line := range []string{`  "account erasure, ownership": ["owner"],`, `  ConfirmPayoutBatch: "payouts confirm, mark paid",`} {
		if !strings.Contains(want, "\n"+line+"\n") {
			t.Errorf("the file does not contain\n%s", line)
		}
	}
}

func TestDocument_HasPermissionsAndConditionsOfMethods(t *testing.T) {
	text := currentDocument(t)
	for _, line := range []string{
		"| account erasure, ownership | owner | `EraseMerchantAccount`, `TransferOwnership` |",
		"| A service token must be of test mode; `X-Mode` is ignored | `DeleteTestData` |",
		"| read dashboards | owner, admin, manager, finance, developer, viewer | All other calls for members |",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("the page does not contain\n%s", line)
		}
	}
}

func TestDocument_ListsFraudRulesAndStatuses(t *testing.T) {
	text := currentDocument(t)
	for _, rule := range fraud.Rules() {
		if !strings.Contains(text, "\n| `"+rule.Name+"` | ") {
			t.Errorf("the page does not list the rule %s", rule.Name)
		}
	}
	_, section, _ := strings.Cut(text, "\n## Changes of a commission\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, status := range commissiontest.Statuses {
		if !strings.Contains(section, "`"+string(status)+"`") {
			t.Errorf("the table of changes does not contain the status %s", status)
		}
	}
}

// The reasons are constants of package attribution, so this test reads them from the source.
func TestDocument_ListsReasonsOfAttribution(t *testing.T) {
	source, err := os.ReadFile("../../affiliate/attribution/reason.go")
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, m := range regexp.MustCompile(`\bWhy\w+ +Reason = "(\w+)"`).FindAllStringSubmatch(string(source), -1) {
		reasons = append(reasons, m[1])
	}
	if len(reasons) < 10 {
		t.Fatalf("reason.go has only the reasons %v", reasons)
	}
	_, section, _ := strings.Cut(currentDocument(t), "\n## Attribution\n")
	section, _, _ = strings.Cut(section, "\n## ")
	listed := regexp.MustCompile("`([A-Z_]{8,})`").FindAllStringSubmatch(section, -1)
	for _, reason := range reasons {
		if !slices.ContainsFunc(listed, func(m []string) bool { return m[1] == reason }) {
			t.Errorf("the page does not list the reason %s", reason)
		}
	}
}
