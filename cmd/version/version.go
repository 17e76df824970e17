// Package version returns the version and the commit of a binary. Every binary prints
// them with the command `version`.
package version

import (
	"cmp"
	"runtime/debug"
)

// release and commit are set by the linker (make build). If they are empty, the values
// come from the build information that the Go command writes into the binary.
var release, commit string

// unknown replaces a value that neither the linker nor the Go command has set.
const unknown = "unknown"

// Describe returns the version and the commit of this binary. If the binary was built with uncommitted changes,
// the version (after make build) or the commit (after go build) ends with -dirty.
func Describe() (release, commit string) {
	info, _ := debug.ReadBuildInfo()
	return describe(info)
}

// Release returns the version of this binary, for example v1.2.0.
func Release() string {
	version, _ := Describe()
	return version
}

// String returns the version and the commit of this binary, as the command `version`
// prints them.
func String() string {
	version, revision := Describe()
	return version + " (commit " + revision + ")"
}

// describe returns the values of Describe. info may be nil.
func describe(info *debug.BuildInfo) (version, revision string) {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	var vcsRevision, dirty string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			vcsRevision = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	if vcsRevision != "" {
		vcsRevision += dirty
	}
	return cmp.Or(release, info.Main.Version, unknown), cmp.Or(commit, vcsRevision, unknown)
}
