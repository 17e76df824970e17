// Package version tells which build of the service a binary is. Every binary prints
// it with the command `version`.
package version

import (
	"cmp"
	"runtime/debug"
)

// release and commit are set by the linker (make build). Without them the values come
// from the build information that the Go command writes into a binary.
var release, commit string

// unknown stands for what neither the linker nor the Go command has set.
const unknown = "unknown"

// Release returns the version of this binary, for example v1.2.0.
func Release() string {
	info, _ := debug.ReadBuildInfo()
	version, _ := describe(info)
	return version
}

// String returns the version and the commit of this binary, as the command `version`
// prints them.
func String() string {
	info, _ := debug.ReadBuildInfo()
	version, revision := describe(info)
	return version + " (commit " + revision + ")"
}

// describe returns version and commit; info may be nil. A commit with uncommitted
// changes ends in -dirty.
func describe(info *debug.BuildInfo) (version, revision string) {
	if info == nil {
		info = &debug.BuildInfo{}
	}
	var found, dirty string
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			found = setting.Value
		case setting.Key == "vcs.modified" && setting.Value == "true":
			dirty = "-dirty"
		}
	}
	if found != "" {
		found += dirty
	}
	return cmp.Or(release, info.Main.Version, unknown), cmp.Or(commit, found, unknown)
}
