package main

import (
	"os"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/affiliate/notification"
)

func TestDocument_CommittedPageIsCurrent(t *testing.T) {
	want, err := document()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../" + docsFile)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: run go run ./tools/notificationdocs", docsFile)
	}
}

func TestDocument_ListsEveryNotificationAndCategory(t *testing.T) {
	text, err := document()
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range notification.Rules() {
		if !strings.Contains(text, "| `"+string(rule.Type)+"` | `"+string(rule.Category)+"` | "+string(rule.Severity)+" |") {
			t.Errorf("%s of the audience %s is not documented", rule.Type, rule.Audience)
		}
	}
	for _, line := range []string{
		"| `security` | always | always | both | owner, admin, manager, finance, developer |",
		"| `webhook_health` | on | always | one | owner, admin, developer |",
		"| `conversions` | on | off | one | owner, admin, manager, viewer |",
		"| `payout_problems` | always | always | one |",
		"| `commission` | `/commissions/{id}` |",
	} {
		if !strings.Contains(text, line) {
			t.Errorf("the page does not contain the line %s", line)
		}
	}
}

func TestDocument_RejectsNotificationWithoutCause(t *testing.T) {
	if _, err := cause(notification.Rule{Type: "unknown"}); err == nil {
		t.Error("a notification that has neither an event nor a cause was documented")
	}
}
