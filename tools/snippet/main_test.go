package main

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/collector/snippet"
)

const root = "../.."

func TestTheCommittedScriptIsWhatTheSourcesMake(t *testing.T) {
	script, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(script, snippet.Script) {
		t.Error("collector/snippet/dist/script.js is stale: run `go run ./tools/snippet`")
	}
	again, err := build(root)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(script, again) {
		t.Error("two builds differ")
	}
}

// What a page's policy may forbid, and what the target lacks, is not in it.
func TestTheScriptAsksNothingOfAPage(t *testing.T) {
	for _, forbidden := range []string{"eval(", "Function(", "innerHTML", ".style", "setInterval", "?.", "??", "async ", "await ", "...{"} {
		if bytes.Contains(snippet.Script, []byte(forbidden)) {
			t.Errorf("the script has %s", forbidden)
		}
	}
}
