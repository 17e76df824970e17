package main

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/collector/snippet"
)

const root = "../.."

func TestBuild_CommittedScriptIsCurrent(t *testing.T) {
	script, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(script, snippet.Script) {
		t.Error("collector/snippet/dist/script.js is out of date: run `go run ./tools/snippet`")
	}
	again, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(script, again) {
		t.Error("two builds of the same sources differ")
	}
}

// The script must not use features that a page's content security policy may forbid, or
// syntax that the target (ES2015) does not have.
func TestScript_UsesNoForbiddenFeatures(t *testing.T) {
	for _, forbidden := range []string{"eval(", "Function(", "innerHTML", ".style", "setInterval", "?.", "??", "async ", "await ", "...{"} {
		if bytes.Contains(snippet.Script, []byte(forbidden)) {
			t.Errorf("the script contains %s", forbidden)
		}
	}
}
