// Package browser finds, installs and starts the Chromium that tests use.
//
// Guarantees: a started browser stores its profile in its own folder, which is deleted
// when the browser ends. It resolves every host name to 127.0.0.1, so a test can use any
// origin and never reaches another machine. On Linux the browser ends with the process
// that started it, even if that process is killed.
//
// Not guaranteed: a certain version of the browser. Production needs no browser.
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

// debianPackage is Chromium without a window system. The window system of the normal
// package would take a quarter of the CPU time of the tests.
const debianPackage = "chromium-headless-shell"

var errNotInstalled = errors.New("the browser Chromium is not installed: run `make browser`, install it (Debian: apt-get install " + debianPackage + ") " +
	"or set CHROME_BIN to the command")

// Find returns the path of the browser: the command in CHROME_BIN if the variable is set,
// otherwise a browser on the PATH. It installs nothing.
func Find() (string, error) {
	if command := os.Getenv("CHROME_BIN"); command != "" {
		path, err := exec.LookPath(command)
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
	return "", errNotInstalled
}

// Ensure is like Find, but installs Debian's package if there is no browser and the
// caller is root on a machine with apt. The output of the installation goes to standard
// error.
func Ensure(ctx context.Context) (string, error) {
	path, err := Find()
	if !errors.Is(err, errNotInstalled) {
		return path, err
	}
	if err := servers.Install(ctx, debianPackage); err != nil {
		return "", fmt.Errorf("%w; %w", errNotInstalled, err)
	}
	return Find()
}

// startTimeout limits the time until a browser is ready. It is long because the machine
// may be busy with compiling.
const startTimeout = time.Minute

// Start starts a browser without a window. Use chromedp.NewContext on the returned
// context to open tabs. The returned context ends when ctx ends. stop ends the browser,
// and returns when its process has ended and its profile is deleted.
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
		end() // kills the browser if it does not close
		release()
	}
	started := make(chan error, 1)
	go func() { started <- chromedp.Do(ctx) }()
	select {
	case err = <-started:
	case <-time.After(startTimeout):
		err = fmt.Errorf("not ready within %s", startTimeout)
	}
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return ctx, stop, nil
}
