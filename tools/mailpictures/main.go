// Command mailpictures makes pictures of the HTML part of mails, so that a change of the
// layout can be looked at:
//
//	go run ./tools/mailpictures -o DIR {mail,server/mail}/testdata/*.golden.html
//
// For every file it writes NAME-600-light.png, NAME-600-dark.png, NAME-375-light.png and
// NAME-375-dark.png. The number is the width of the window in CSS pixels.
package main

import (
	"context"
	"encoding/base64"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/tributary-hq/tributary/tools/browser"
)

func main() {
	out := flag.String("o", ".", "the directory of the pictures")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *out, flag.Args()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, out string, files []string) error {
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // pictures are not secret
		return err
	}
	ctx, stop, err := browser.Start(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, file := range files {
		html, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(filepath.Base(file), ".")
		for _, width := range []int64{600, 375} {
			for _, scheme := range []string{"light", "dark"} {
				path := filepath.Join(out, fmt.Sprintf("%s-%d-%s.png", name, width, scheme))
				if err := picture(ctx, html, width, scheme, path); err != nil {
					return fmt.Errorf("%s: %w", path, err)
				}
			}
		}
	}
	return nil
}

// picture writes a picture of the whole page.
func picture(browser context.Context, html []byte, width int64, scheme, path string) error {
	tab, end := chromedp.NewContext(browser)
	defer end()
	_, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		return err
	}
	const lowestHeight = 200 // a taller page makes a taller picture
	page := "data:text/html;charset=utf-8;base64," + base64.StdEncoding.EncodeToString(html)
	if err := chromedp.Do(tab, chromedp.EmulateViewport(width, lowestHeight), chromedp.Navigate(page)); err != nil {
		return err
	}
	png, err := chromedp.Run(tab, chromedp.FullScreenshot(100))
	if err != nil {
		return err
	}
	return os.WriteFile(path, png, 0o644) //nolint:gosec // pictures are not secret
}
