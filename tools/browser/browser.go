// Package browser finds, installs and starts the Chromium that tests drive.
//
// Guaranteed: a started browser keeps its profile in a folder of its own that
// goes with it, resolves every host name to 127.0.0.1, so a test names its
// origins as it likes and reaches nobody else, and on Linux ends with the
// process that started it, however it ends.
//
// Not promised: a version. Production needs no browser.
package browser

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/servers"
)

// debianPackage is Chromium without its window, which takes a quarter of the
// processor's time.
const debianPackage = "chromium-headless-shell"

var errNone = errors.New("no Chromium on this machine: run `make browser`, install it (Debian: apt-get install " + debianPackage + ") " +
	"or name the command in CHROME_BIN")

// Find returns the browser's command: what CHROME_BIN says, else what is on PATH.
// It installs nothing.
func Find() (string, error) {
	if named := os.Getenv("CHROME_BIN"); named != "" {
		path, err := exec.LookPath(named)
		if err != nil {
			return "", fmt.Errorf("CHROME_BIN: %w", err)
		}
		return path, nil
	}
	for _, name := range []string{debianPackage, "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNone
}

// Ensure is Find, and installs Debian's package when there is no browser and the
// caller is root on a machine with apt. The installation shows on standard error.
func Ensure(ctx context.Context) (string, error) {
	path, err := Find()
	if !errors.Is(err, errNone) {
		return path, err
	}
	if err := servers.Install(ctx, debianPackage); err != nil {
		return "", fmt.Errorf("%w; %w", errNone, err)
	}
	return Find()
}

// startTimeout bounds a start, on a machine that builds at the same time.
const startTimeout = time.Minute

// Start starts a browser without a window. Tabs are made with chromedp.NewContext
// on the returned context, which ends with ctx; stop ends the browser and returns
// when its process is gone and its profile removed.
func Start(ctx context.Context) (browser context.Context, stop func(), err error) {
	path, err := Find()
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.Flag("host-resolver-rules", "MAP * 127.0.0.1"),
		chromedp.Flag("disable-gpu", true),
	)
	ctx, release := chromedp.NewExecAllocator(ctx, options...)
	ctx, end := chromedp.NewContext(ctx)
	stop = func() {
		end() // kills what does not close by itself
		release()
	}
	started := make(chan error, 1)
	go func() { started <- chromedp.Do(ctx) }()
	select {
	case err = <-started:
	case <-time.After(startTimeout):
		err = fmt.Errorf("no answer within %s", startTimeout)
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return ctx, stop, nil
}
