package main

import (
	"os/exec"
	"strings"
	"testing"
)

// The binary of the collector must contain no Postgres driver, no gRPC, no job queue and
// no code that starts servers or browsers.
func TestBinary_DoesNotContainCore(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 50 {
		t.Fatalf("only %d packages are listed", len(packages))
	}
	const module = "github.com/tributary-hq/tributary/"
	for _, name := range packages {
		for _, forbidden := range []string{
			"github.com/jackc/", "google.golang.org/grpc", "github.com/riverqueue/", "github.com/chromedp/", "github.com/evanw/",
			module + "server", module + "gateway", module + "storage/postgres", module + "tools/",
		} {
			if strings.HasPrefix(name, forbidden) {
				t.Errorf("the binary contains the package %s", name)
			}
		}
	}
}
