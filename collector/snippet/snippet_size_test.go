package snippet_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/tributary-hq/tributary/collector/snippet"
)

// Every page of a shop waits for it (DECISIONS.md 15.1).
const budget = 3 << 10

func TestTheScriptFitsItsBudget(t *testing.T) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	check(t, err)
	_, err = w.Write(snippet.Script)
	check(t, err)
	check(t, w.Close())
	if packed.Len() > budget {
		t.Errorf("%d bytes, %d with gzip: %d too many", len(snippet.Script), packed.Len(), packed.Len()-budget)
	}
	t.Logf("%d bytes, %d with gzip, %d left", len(snippet.Script), packed.Len(), budget-packed.Len())
}
