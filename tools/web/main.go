// Command web downloads the libraries of the web applications and builds the applications
// into web/dist. It must run in the root of the checkout.
package main

import (
	"context"
	"log"

	"github.com/tributary-hq/tributary/web/build"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("web: ")
	if err := build.Download(context.Background(), "web"); err != nil {
		log.Fatal(err)
	}
	if err := build.Build("web"); err != nil {
		log.Fatal(err)
	}
}
