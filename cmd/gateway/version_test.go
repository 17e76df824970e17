package main

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/cmd/version"
)

func TestVersion_PrintsVersionAndCommit(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"version"}, &out); err != nil || out.String() != version.String()+"\n" {
		t.Errorf("run(version) printed %q and returned %v, want %q", &out, err, version.String()+"\n")
	}
}
