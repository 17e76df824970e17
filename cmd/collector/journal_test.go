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

// asCommand is an environment variable. If it is set, the test binary runs as the
// collector.
const asCommand = "TRIBUTARY_TEST_AS_COLLECTOR"

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command runs the collector in a separate process. dir is the value of
// TRIBUTARY_JOURNAL_DIR.
type command struct{ dir string }

// run runs the collector, checks its exit code and returns its output on stdout and
// stderr.
func (c command) run(t *testing.T, code int, args ...string) (out, notes string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1", "TRIBUTARY_JOURNAL_DIR="+c.dir)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exitErr *exec.ExitError
	if err != nil && !errors.As(err, &exitErr) {
		t.Fatal(err)
	}
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("the exit code of %q is %d, want %d\n%s%s", args, got, code, stdout.String(), stderr.String())
	}
	return stdout.String(), stderr.String()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestJournal_InspectAndExport(t *testing.T) {
	c := command{filepath.Join(t.TempDir(), "journal")}
	j, err := journal.Open(journal.Config{Dir: c.dir})
	check(t, err)
	t.Cleanup(func() { _ = j.Close() })
	id := affiliate.NewID[affiliate.ClickID](time.Now())
	workspace := affiliate.NewID[affiliate.WorkspaceID](time.Now())
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

	// The journal is still open, as if a collector were using it.
	out, _ := c.run(t, 0, "journal", "inspect")
	for _, want := range []string{"segments  1\n", "records   2\n", "clicks    3\n", "damaged   0\n", "oldest    20", "newest    20"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
	out, notes := c.run(t, 0, "journal", "export", c.dir)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if len(lines) != 3 || notes != "3 clicks in 2 records, 0 damaged records\n" {
		t.Fatalf("unexpected output of export:\n%s%s", out, notes)
	}
	want := map[string]any{
		"id": id.String(), "workspace_id": workspace.String(), "referral_code": "anna",
		"mode": "MODE_LIVE", "ip_hash": "MDEyMzQ1Njc4OWFiY2RlZg==",
	}
	checkJSON(t, lines[0], want)
	checkJSON(t, lines[1], map[string]any{"id": "bm8gdXVpZA==", "public_key": "pk_test_blind", "received_at_ms": "1767225600123"})
	checkJSON(t, lines[2], map[string]any{"referral_code": "bert"})

	// Damage the payload of the first record. Append a record that is not a batch, and
	// after it an unfinished write.
	check(t, j.Append(context.Background(), []byte("\xffgarbage"), 1))
	check(t, j.Close())
	path := filepath.Join(c.dir, "0000000000000001.clicks")
	raw, err := os.ReadFile(path)
	check(t, err)
	raw[60] ^= 1
	check(t, os.WriteFile(path, append(raw, 0xF9, 0xFB), 0o600))
	out, _ = c.run(t, 1, "journal", "inspect")
	for _, want := range []string{"records   2\n", "damaged   1\n  0000000000000001.clicks: ", " at offset 16, 1 records\n", "unfinished write of 2 bytes"} {
		if !strings.Contains(out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, out)
		}
	}
	out, notes = c.run(t, 1, "journal", "export")
	checkJSON(t, out, map[string]any{"referral_code": "bert"})
	if !strings.Contains(notes, "1 clicks in 2 records, 2 damaged records\n") {
		t.Errorf("export of a damaged journal printed %q on stderr, want 1 click, 2 records and 2 damaged records", notes)
	}
}

// checkJSON checks that a line is a JSON object with the given fields.
func checkJSON(t *testing.T, line string, want map[string]any) {
	t.Helper()
	var got map[string]any
	check(t, json.Unmarshal([]byte(line), &got))
	if len(got) != len(want) {
		t.Errorf("got %s, want %v", line, want)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("the field %s is %v, want %v", name, got[name], value)
		}
	}
}

func TestInvalidArguments_PrintUsage(t *testing.T) {
	c := command{t.TempDir()}
	for _, args := range [][]string{{"serv"}, {"--help"}, {"journal"}, {"journal", "delete"}, {"journal", "inspect", "a", "b"}} {
		if _, notes := c.run(t, 2, args...); !strings.Contains(notes, "usage: collector") {
			t.Errorf("collector %q printed %q, want the usage", args, notes)
		}
	}
	// The arguments are valid, but the journal does not exist.
	c.run(t, 1, "journal", "inspect", filepath.Join(c.dir, "missing"))
	c.dir = ""
	if _, notes := c.run(t, 1, "journal", "export"); !strings.Contains(notes, "TRIBUTARY_JOURNAL_DIR") {
		t.Errorf("without a folder, export printed %q on stderr, want the name TRIBUTARY_JOURNAL_DIR", notes)
	}
}
