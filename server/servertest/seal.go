package servertest

import (
	"encoding/base64"
	"testing"

	"github.com/tributary-hq/tributary/server/seal"
)

// Seal returns keys that encrypt stored secrets. All calls return the same keys.
func Seal(t testing.TB) *seal.Keys {
	t.Helper()
	keys, err := seal.New("test:" + base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}
