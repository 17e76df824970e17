package snippet_test

import (
	"bytes"
	"compress/gzip"
	"testing"

	"github.com/tributary-hq/tributary/collector/snippet"
)

// maxScriptSize is small because every page of a shop loads the script (DECISIONS.md
// 15.1).
const maxScriptSize = 3 << 10

func TestScript_FitsSizeLimit(t *testing.T) {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	check(t, err)
	_, err = w.Write(snippet.Script)
	check(t, err)
	check(t, w.Close())
	if packed.Len() > maxScriptSize {
		t.Errorf("%d bytes, %d with gzip: %d too many", len(snippet.Script), packed.Len(), packed.Len()-maxScriptSize)
	}
	t.Logf("%d bytes, %d with gzip, %d below the limit", len(snippet.Script), packed.Len(), maxScriptSize-packed.Len())
}
