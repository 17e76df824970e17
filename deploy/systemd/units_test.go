// Package systemd tests the units and the script of this folder.
package systemd

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/tools/servers"
)

// maxExposure is the highest permitted exposure of a unit, from 0 to 100. A unit without
// sandboxing has 96.
const maxExposure = "15"

// installed is the folder of the programs in the units.
const installed = "/opt/tributary/"

func TestUnits(t *testing.T) {
	if _, err := exec.LookPath("systemd-analyze"); err != nil {
		if err := servers.Install(t.Context(), "systemd"); err != nil {
			t.Fatal(err)
		}
	}
	units, err := filepath.Glob("*.service")
	if err != nil || len(units) != 5 {
		t.Fatalf("the folder has the units %v, error %v, want five units", units, err)
	}
	programs := t.TempDir() + "/"
	for _, name := range []string{"core", "gateway", "collector", "landing"} {
		if err := os.WriteFile(programs+name, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, unit := range units {
		t.Run(unit, func(t *testing.T) {
			text, err := os.ReadFile(unit)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "\nRestart=") && !strings.Contains(string(text), "\nStartLimitIntervalSec=0\n") {
				t.Error("systemd gives the program up if it fails a few times")
			}
			if !strings.Contains(string(text), "\nExecStart="+installed) {
				t.Fatalf("the unit starts no program of %s", installed)
			}
			// verify checks that the programs exist.
			changed := filepath.Join(t.TempDir(), unit)
			if err := os.WriteFile(changed, []byte(strings.ReplaceAll(string(text), installed, programs)), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, check := range [][]string{
				{"verify", "--man=no", "--recursive-errors=no", changed},
				{"security", "--offline=yes", "--threshold=" + maxExposure, unit},
			} {
				out, err := exec.CommandContext(t.Context(), "systemd-analyze", check...).CombinedOutput()
				// verify only prints warnings about unknown settings.
				if err != nil || check[0] == "verify" && len(out) > 0 {
					t.Errorf("systemd-analyze %s: %v\n%s", strings.Join(check, " "), err, out)
				}
			}
		})
	}
}

// The script gives a command the secrets and the settings of the core's unit, and its
// arguments. systemd-run needs a running systemd, so the test replaces it by a script that
// provides the credentials and runs the command.
func TestScript_RunsTheCoreWithTheSecretsOfItsUnit(t *testing.T) {
	unit, err := os.ReadFile("tributary-core.service")
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile("tributary")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var wanted []string
	for line := range strings.Lines(string(unit)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		switch {
		case name == "EnvironmentFile", name == "LoadCredential":
			wanted = append(wanted, "--property="+name+"="+value)
		case name == "Environment" && strings.Contains(value, "%d/"):
			wanted = append(wanted, "> "+strings.ReplaceAll(value, "%d", dir))
		}
	}
	if len(wanted) != 10 {
		t.Fatalf("the unit has the settings %q, want 10", wanted)
	}
	changed := strings.ReplaceAll(string(script), installed, dir+"/")
	for name, text := range map[string]string{
		"tributary": changed,
		"core":      "#!/bin/sh\nenv | sed 's/^/> /'\nfor a; do echo \"argument $a\"; done\n",
		"systemd-run": "#!/bin/sh\nfor a; do case $a in --*) echo \"$a\"; shift;; *) break;; esac; done\n" +
			"CREDENTIALS_DIRECTORY=" + dir + " exec \"$@\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), filepath.Join(dir, "tributary"), "workspace", "create", "--name", "Mia's shop")
	command.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, line := range append(wanted, "--uid=tributary", "argument workspace", "argument create", "argument --name", "argument Mia's shop") {
		if !strings.Contains("\n"+string(out), "\n"+line+"\n") {
			t.Errorf("the output does not contain the line %s:\n%s", line, out)
		}
	}
}
