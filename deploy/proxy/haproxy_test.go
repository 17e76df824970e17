// Package proxy tests the sample for HAProxy. The samples for Caddy and nginx are tested with
// the compose file, in test/operations/containers.
package proxy

import (
	"os/exec"
	"testing"

	"github.com/tributary-hq/tributary/tools/servers"
)

func TestHAProxy_AcceptsSample(t *testing.T) {
	if _, err := exec.LookPath("haproxy"); err != nil {
		if err := servers.Install(t.Context(), "haproxy"); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), "haproxy", "-c", "-f", "haproxy.cfg").CombinedOutput(); err != nil {
		t.Errorf("haproxy -c: %v\n%s", err, out)
	}
}
