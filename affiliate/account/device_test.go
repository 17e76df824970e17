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

func TestDeviceName(t *testing.T) {
	for agent, want := range map[string]string{
		"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                  "Firefox on Linux",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0":               "Edge on Windows",
		"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1": "Safari on iOS",
		"Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36":                         "Chrome on Android",
		"Buy cheap <b>pills</b>/1.0 (X11; Linux x86_64)":                                                                                          "Linux",
		"Buy cheap pills/1.0": "",
		"curl/8.14.1":         "",
		"":                    "",
	} {
		if got := account.DeviceName(agent); got != want {
			t.Errorf("DeviceName(%q) = %q, want %q", agent, got, want)
		}
	}
}
