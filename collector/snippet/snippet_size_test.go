package snippet_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/tributary-hq/tributary/collector/snippet"
)

// maxScriptSize is the maximum size with gzip. It is small because every page of a shop
// loads the script.
const maxScriptSize = 3 << 10

func TestScript_FitsSizeLimit(t *testing.T) {
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	check(t, err)
	_, err = w.Write(snippet.Script)
	check(t, err)
	check(t, w.Close())
	if compressed.Len() > maxScriptSize {
		t.Errorf("the script has %d bytes with gzip, want at most %d", compressed.Len(), maxScriptSize)
	}
	t.Logf("the script has %d bytes, and %d of at most %d bytes with gzip", len(snippet.Script), compressed.Len(), maxScriptSize)
}
