package postgres

// The bounds of exports that run at a time.
const (
	MaxExports          = maxExports
	MaxWorkspaceExports = maxWorkspaceExports
)
