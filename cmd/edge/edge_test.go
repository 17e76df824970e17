package edge_test

import (
	"bytes"
	"testing"

	"github.com/tributary-hq/tributary/cmd/edge"
	"github.com/tributary-hq/tributary/cmd/settings"
)

// A collector only stores hashes, so it uses the first key.
func TestConfig_UsesTheFirstHashKey(t *testing.T) {
	t.Parallel()
	first := bytes.Repeat([]byte{1}, 32)
	config := edge.Config(settings.Collector{HashKeys: settings.HashKeys{first, bytes.Repeat([]byte{2}, 32)}}, nil)
	if !bytes.Equal(config.HashKey, first) {
		t.Errorf("the collector uses the key %x", config.HashKey)
	}
}
