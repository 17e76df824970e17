package main

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/cmd/version"
)

func TestVersionPrintsVersionAndCommit(t *testing.T) {
	var out bytes.Buffer
	if err := execute([]string{"version"}, &out, &out); err != nil || out.String() != version.String()+"\n" {
		t.Errorf("%q, %v", &out, err)
	}
}
