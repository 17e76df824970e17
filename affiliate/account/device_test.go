package account_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
)

func TestDeviceHash_IgnoresTheVersionOfTheBrowser(t *testing.T) {
	t.Parallel()
	now := time.Now()
	ada, ben := affiliate.NewID[affiliate.UserID](now), affiliate.NewID[affiliate.UserID](now)
	const network, browser = "203.0.113.0/24", "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Chrome/141.0.0.0 Safari/537.36"
	hash := func(user affiliate.UserID, network, agent string) []byte {
		return account.DeviceHash(affiliate.HashKeys{[]byte("key")}, user, network, agent).First()
	}
	device := hash(ada, network, browser)
	for name, same := range map[string][]byte{
		"same values":   hash(ada, network, browser),
		"newer browser": hash(ada, network, "Mozilla/5.0 (Macintosh; Intel Mac OS X 14_1) Chrome/142.0.3.1 Safari/537.36"),
	} {
		if !bytes.Equal(same, device) {
			t.Errorf("%s: the hash is different", name)
		}
	}
	for name, other := range map[string][]byte{
		"another key":     account.DeviceHash(affiliate.HashKeys{[]byte("other")}, ada, network, browser).First(),
		"another user":    hash(ben, network, browser),
		"another network": hash(ada, "203.0.114.0/24", browser),
		"another browser": hash(ada, network, "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Firefox/141.0"),
		"no browser":      hash(ada, network, ""),
	} {
		if bytes.Equal(other, device) {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}
