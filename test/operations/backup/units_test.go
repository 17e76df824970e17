//go:build operations

package backup

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/tools/servers"
)

// unitCommand returns the command of a unit of systemd in deploy/backup.
func unitCommand(t *testing.T, unit, instance string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(configFile, unit))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if command, ok := strings.CutPrefix(strings.TrimSpace(line), "ExecStart="); ok {
			return strings.ReplaceAll(command, "%i", instance)
		}
	}
	t.Fatalf("%s has no ExecStart", unit)
	return ""
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
