package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/tributary-hq/tributary/gateway/site"
	"github.com/tributary-hq/tributary/web/build"
)

// webFolder contains the sources of the web applications. dev runs in the root of a checkout.
const webFolder = "web"

// watchPages builds the web applications of the checkout, and builds them again after each
// change of their sources, until ctx ends. It calls built after the first build. Outside a
// checkout the site keeps the applications that are embedded in this program.
func watchPages(ctx context.Context, pages *site.Site, built func(), out io.Writer) error {
	if _, err := os.Stat(filepath.Join(webFolder, "package-lock.json")); errors.Is(err, fs.ErrNotExist) {
		built()
		return nil
	}
	if err := build.Download(ctx, webFolder); err != nil {
		return err
	}
	return build.Watch(ctx, webFolder, func(err error) {
		if err == nil {
			err = pages.Load(os.DirFS(filepath.Join(webFolder, "dist")))
		}
		if err != nil {
			fmt.Fprintln(out, err)
		}
		built()
	})
}
