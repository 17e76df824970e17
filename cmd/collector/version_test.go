package main

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/cmd/version"
)

func TestVersion_PrintsVersionAndCommit(t *testing.T) {
	var out bytes.Buffer
	if err := execute([]string{"version"}, &out, &out); err != nil || out.String() != version.String()+"\n" {
		t.Errorf("execute(version) printed %q and returned %v, want %q", &out, err, version.String()+"\n")
	}
}
