// Command print prints the version. The test of package version builds it.
package main

import (
	"fmt"

	"github.com/tributary-hq/tributary/cmd/version"
)

func main() { fmt.Println(version.String(), version.Release()) }
