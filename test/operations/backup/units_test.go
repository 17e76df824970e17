//go:build operations

package backup

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/tools/servers"
)

// unitCommand returns the command of a unit of systemd in deploy/backup.
func unitCommand(t *testing.T, unit, instance string) string {
	t.Helper()
	return unitLine(t, unit, "ExecStart", instance)
}

// unitLine returns the value of a line of a unit.
func unitLine(t *testing.T, unit, name, instance string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(configFile, unit))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), name+"="); ok {
			return strings.ReplaceAll(command, "%i", instance)
		}
	}
	t.Fatalf("%s has no %s", unit, name)
	return ""
}

// A backup leaves its time for the node exporter. Without the exporter, it does nothing.
func TestUnits_RecordTheTimeOfTheBackup(t *testing.T) {
	const folder = "/var/lib/prometheus/node-exporter"
	line, ok := strings.CutPrefix(unitLine(t, "tributary-backup@.service", "ExecStartPost", "diff"), "+/bin/sh -c '")
	if script, closed := strings.CutSuffix(line, "'"); ok && closed {
		line = strings.NewReplacer("$$", "$", "%%", "%").Replace(script) // as systemd does
	}
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "missing")} {
		if out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", strings.ReplaceAll(line, folder, path)).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("the folder of the exporter has the files %v, %v, want one", files, err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "tributary-backup.prom"))
	if err != nil {
		t.Fatal(err)
	}
	var seconds int64
	if _, err := fmt.Sscanf(string(text), "tributary_backup_timestamp_seconds %d\n", &seconds); err != nil || time.Since(time.Unix(seconds, 0)).Abs() > time.Hour {
		t.Errorf("the file has the text %q, %v", text, err)
	}
}

func TestUnits_AreValid(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if err := servers.Install(t.Context(), "systemd"); err != nil {
			t.Fatal("systemd-analyze is not installed: ", err)
		}
	}
	units := []string{
		"tributary-backup@full.service", "tributary-backup@diff.service", "tributary-backup-full.timer", "tributary-backup-diff.timer",
		"tributary-backup-verify.service", "tributary-backup-verify.timer",
	}
	cmd := exec.Command("systemd-analyze", append([]string{"verify", "--man=no"}, units...)...)
	cmd.Dir = configFile
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+mustAbs(t, configFile)+":")
	out, err := cmd.CombinedOutput()
	if err != nil || strings.Contains(string(out), "tributary") {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(configFile, "*.timer"))
	if err != nil || len(files) != 3 {
		t.Errorf("deploy/backup has the timers %q, want those of this test", files)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
