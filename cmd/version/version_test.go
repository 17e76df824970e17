package version

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
)

func TestDescribe_ReadsBuildInformation(t *testing.T) {
	buildInfo := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123abc"}
	for _, test := range []struct {
		name            string
		info            *debug.BuildInfo
		version, commit string
	}{
		{"a tagged commit", buildInfo("v1.2.0", revision, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "v1.2.0", "0123abc"},
		{"uncommitted changes", buildInfo("(devel)", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "(devel)", "0123abc-dirty"},
		{"no repository", buildInfo("(devel)"), "(devel)", "unknown"},
		{"no build information", nil, "unknown", "unknown"},
	} {
		if version, commit := describe(test.info); version != test.version || commit != test.commit {
			t.Errorf("%s: got %q and %q, want %q and %q", test.name, version, commit, test.version, test.commit)
		}
	}
}

// The linker ignores a flag for a variable that does not exist. Therefore the test builds
// a binary with the variable names that it finds in the Makefile.
func TestMakefile_SetsVersionAndCommit(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	const path = "github.com/tributary-hq/tributary/cmd/version"
	var flags []string
	for name, value := range map[string]string{"release": "v9.8.7", "commit": "0123abc"} {
		if !strings.Contains(string(makefile), "-X "+path+"."+name+"=$(") {
			t.Errorf("the Makefile does not set %s.%s", path, name)
		}
		flags = append(flags, "-X "+path+"."+name+"="+value)
	}
	binary := filepath.Join(t.TempDir(), "print")
	if out, err := exec.Command("go", "build", "-ldflags="+strings.Join(flags, " "), "-o", binary, "./testdata/print").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	out, err := exec.Command(binary).Output()
	if err != nil || string(out) != "v9.8.7 (commit 0123abc) v9.8.7\n" {
		t.Errorf("the binary printed %q, %v", out, err)
	}
}
