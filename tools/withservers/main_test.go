package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// runMainVariable is an environment variable. If it is set, this test binary runs main.
const runMainVariable = "WITHSERVERS_TEST_AS_COMMAND"

func TestMain(m *testing.M) {
	if os.Getenv(runMainVariable) != "" {
		main()
	}
	os.Exit(m.Run())
}

// withservers runs a shell script with the command. It checks that the command leaves
// nothing in its temporary folder.
func withservers(t *testing.T, script string, env ...string) (stdout, stderr string, code int) {
	t.Helper()
	tmp, err := os.MkdirTemp("", "withservers-test-") //nolint:usetesting // the user postgres cannot reach the folder of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(tmp) })
	if err := os.Chmod(tmp, 0o711); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "--", "sh", "-c", script)
	// This test may itself run with withservers. Its variables must not affect the
	// command.
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "TRIBUTARY_") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, append(env, runMainVariable+"=1", "TMPDIR="+tmp)...)
	cmd.Stdin = strings.NewReader("from stdin\n")
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	remaining, err := filepath.Glob(filepath.Join(tmp, "*"))
	if err != nil || len(remaining) > 0 {
		t.Errorf("the command did not delete these files: %q (error: %v)", remaining, err)
	}
	return out.String(), errOut.String(), cmd.ProcessState.ExitCode()
}

func TestRun_PassesServersInputAndExitCode(t *testing.T) {
	t.Parallel()
	out, errOut, code := withservers(t,
		`cat; echo "$TRIBUTARY_TEST_DATABASE_URL"; echo "$TRIBUTARY_TEST_REDIS_URL"; echo "$TRIBUTARY_DATABASE_URL"; echo oops >&2; exit 7`,
		"TRIBUTARY_DATABASE_URL=somebody's data")
	if code != 7 {
		t.Errorf("exit code %d, want 7", code)
	}
	if errOut != "oops\n" {
		t.Errorf("standard error = %q, want only the output of the command", errOut)
	}
	lines := strings.Split(out, "\n")
	if len(lines) != 5 || lines[0] != "from stdin" ||
		!strings.HasPrefix(lines[1], "postgres://tributary@127.0.0.1:") ||
		!strings.HasPrefix(lines[2], "redis://127.0.0.1:") ||
		lines[3] != "somebody's data" {
		t.Errorf("standard output = %q, want the input and the addresses of the servers", out)
	}
}

func TestRun_KeepsVariablesThatAreSet(t *testing.T) {
	t.Parallel()
	out, _, code := withservers(t, `env | grep ^TRIBUTARY_ | sort`,
		"TRIBUTARY_TEST_DATABASE_URL=mine", "TRIBUTARY_TEST_REDIS_URL=mine too")
	if want := "TRIBUTARY_TEST_DATABASE_URL=mine\nTRIBUTARY_TEST_REDIS_URL=mine too\n"; code != 0 || out != want {
		t.Errorf("exit code %d, output %q; want 0, %q", code, out, want)
	}
}

func TestRun_PassesSignalsToCommand(t *testing.T) {
	t.Parallel()
	for sig, name := range map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM"} {
		// The command signals only its parent, as kill does.
		out, _, code := withservers(t, `trap 'echo caught; exit 3' `+name+`; kill -`+name+` $PPID; while :; do sleep 0.05; done`)
		if code != 3 || out != "caught\n" {
			t.Errorf("%v with a handler: exit code %d, output %q; want 3, \"caught\"", sig, code, out)
		}
		_, _, code = withservers(t, `kill -`+name+` $PPID; while :; do sleep 0.05; done`)
		if want := 128 + int(sig); code != want {
			t.Errorf("%v without a handler: exit code %d, want %d", sig, code, want)
		}
	}
}

func TestRun_DoesNotRunCommandIfServerCannotStart(t *testing.T) {
	t.Parallel()
	out, errOut, code := withservers(t, "echo ran", "PG_BINDIR=/nowhere")
	if code != 1 || out != "" || !strings.HasPrefix(errOut, "withservers: PG_BINDIR: /nowhere ") || strings.Count(errOut, "\n") != 1 {
		t.Errorf("exit code %d, output %q, standard error %q; want 1, no output, and an error in one line that starts with PG_BINDIR", code, out, errOut)
	}
}
