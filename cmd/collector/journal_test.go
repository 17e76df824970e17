package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/collector/journal"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

// asCommand is set where the test's binary is to be the collector itself.
const asCommand = "TRIBUTARY_TEST_AS_COLLECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command is a collector of its own process; dir is its TRIBUTARY_JOURNAL_DIR.
type command struct{ dir string }

// run checks the exit code and returns what was printed.
func (c command) run(t *testing.T, code int, args ...string) (out, notes string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "TRIBUTARY_JOURNAL_DIR="+c.dir)
	var printed, noted strings.Builder
	cmd.Stdout, cmd.Stderr = &printed, &noted
	err := cmd.Run()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("%q ended with %d\n%s%s", args, got, printed.String(), noted.String())
	}
	return printed.String(), noted.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournalIsInspectedAndExported(t *testing.T) {
	c := command{filepath.Join(t.TempDir(), "journal")}
	j, err := journal.Open(journal.Config{Dir: c.dir})
	check(t, err)
	t.Cleanup(func() { _ = j.Close() })
	id := affiliate.NewID[affiliate.Click](time.Now())
	workspace := affiliate.NewID[affiliate.Workspace](time.Now())
	add := func(clicks ...*edgev1.Click) {
		raw, err := proto.Marshal(&edgev1.ClickBatch{Clicks: clicks})
		check(t, err)
		check(t, j.Append(context.Background(), raw, len(clicks)))
	}
	add(
		&edgev1.Click{Id: id.UUID[:], WorkspaceId: workspace.UUID[:], ReferralCode: "anna", Mode: edgev1.Mode_MODE_LIVE, IpHash: []byte("0123456789abcdef")},
		&edgev1.Click{Id: []byte("no uuid"), PublicKey: "pk_test_blind", ReceivedAtMs: 1_767_225_600_123},
	)
	add(&edgev1.Click{ReferralCode: "bert"})

	// While a collector has it.
	out, _ := c.run(t, 0, "journal", "inspect")
	for _, want := range []string{"segments  1\n", "records   2\n", "clicks    3\n", "damaged   0\n", "oldest    20", "newest    20"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out, notes := c.run(t, 0, "journal", "export", c.dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || notes != "3 clicks in 2 records, 0 damaged records\n" {
		t.Fatalf("%s%s", out, notes)
	}
	want := map[string]any{
		"id": id.String(), "workspace_id": workspace.String(), "referral_code": "anna",
		"mode": "MODE_LIVE", "ip_hash": "MDEyMzQ1Njc4OWFiY2RlZg==",
	}
	equal(t, lines[0], want)
	equal(t, lines[1], map[string]any{"id": "bm8gdXVpZA==", "public_key": "pk_test_blind", "received_at_ms": "1767225600123"})
	equal(t, lines[2], map[string]any{"referral_code": "bert"})

	// The first record's payload is damaged, the last is no batch, and behind it a
	// write was cut short.
	check(t, j.Append(context.Background(), []byte("\xffgarbage"), 1))
	check(t, j.Close())
	path := filepath.Join(c.dir, "0000000000000001.clicks")
	raw, err := os.ReadFile(path)
	check(t, err)
	raw[60] ^= 1
	check(t, os.WriteFile(path, append(raw, 0xF9, 0xFB), 0o600))
	out, _ = c.run(t, 1, "journal", "inspect")
	for _, want := range []string{"records   2\n", "damaged   1\n  0000000000000001.clicks: ", " at 16, 1 records\n", "unfinished write of 2 bytes"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	out, notes = c.run(t, 1, "journal", "export")
	equal(t, out, map[string]any{"referral_code": "bert"})
	if !strings.Contains(notes, "1 clicks in 2 records, 2 damaged records\n") {
		t.Error(notes)
	}
}

func equal(t *testing.T, line string, want map[string]any) {
	t.Helper()
	var got map[string]any
	check(t, json.Unmarshal([]byte(line), &got))
	if len(got) != len(want) {
		t.Errorf("%s, want %v", line, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %v, want %v", name, got[name], value)
		}
	}
}

func TestUnknownArgumentsPrintTheUsage(t *testing.T) {
	c := command{t.TempDir()}
	for _, args := range [][]string{{"serv"}, {"--help"}, {"journal"}, {"journal", "delete"}, {"journal", "inspect", "a", "b"}} {
		if _, notes := c.run(t, 2, args...); !strings.Contains(notes, "usage: collector") {
			t.Errorf("%q: %s", args, notes)
		}
	}
	// It is one of the arguments that it takes, but there is nothing.
	c.run(t, 1, "journal", "inspect", filepath.Join(c.dir, "missing"))
	c.dir = ""
	if _, notes := c.run(t, 1, "journal", "export"); !strings.Contains(notes, "TRIBUTARY_JOURNAL_DIR") {
		t.Error(notes)
	}
}
