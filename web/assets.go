// Package web contains the web applications: the portal of partners and the API
// reference. They are built from src by package build, with libraries from npm, and embedded
// into the binary of the gateway. Only a placeholder of the built files is committed: a
// binary that was built without `make web` serves pages that explain this.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Files returns the built files. The pages are at the top (portal.html); all other files are
// in the folder assets, and their names contain a hash of their content.
func Files() fs.FS {
	files, err := fs.Sub(dist, "dist")
	if err != nil {
		panic(err) // the path is valid
	}
	return files
}
