package postgres

// Limits of concurrent exports.
const (
	MaxExports          = maxExports
	MaxWorkspaceExports = maxWorkspaceExports
)
