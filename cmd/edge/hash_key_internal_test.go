package edge

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/tributary-hq/tributary/cmd/settings"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// keys returns a list of hash keys. Each character is one key.
func keys(list string) settings.HashKeys {
	var keys settings.HashKeys
	for _, key := range list {
		keys = append(keys, bytes.Repeat([]byte{byte(key)}, 32))
	}
	return keys
}

// cores writes the fingerprints of hash keys as cores do.
type cores struct {
	*testing.T

	url     string
	version int64
}

// write writes the list of a core.
func (c *cores) write(list string) {
	c.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: c.url})
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	message := &edgev1.HashKeys{}
	for _, key := range keys(list).SettingKeys().Fingerprints() {
		message.Fingerprints = append(message.Fingerprints, key.Fingerprint)
	}
	c.version++
	batch := directory.NewWriter(client).Batch()
	batch.PutHashKeys(c.version, message)
	if err := batch.Flush(c.Context()); err != nil {
		c.Fatal(err)
	}
}

// flush removes all data from Redis.
func (c *cores) flush() {
	c.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: c.url})
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	if err := client.FlushDB(c.Context()).Err(); err != nil {
		c.Fatal(err)
	}
}

// start compares the keys of a collector as at its start.
func (c *cores) start(list string, log *slog.Logger) (*HashKeyCheck, error) {
	return CompareHashKey(c.Context(), keys(list), clickstream.Endpoint{URL: c.url}, log, prometheus.NewRegistry())
}

func closeKey(t *testing.T, k *HashKeyCheck) {
	t.Helper()
	if err := k.Close(); err != nil {
		t.Error(err)
	}
}

// In each step of a rotation, all collectors start, whichever core has written its list last.
func TestCompareHashKey_Rotation(t *testing.T) {
	c := &cores{T: t, url: redistest.New(t)}
	for _, step := range []struct {
		name              string
		cores, collectors []string // the lists of the processes that run at the same time
		refused           string
	}{
		{name: "before the rotation", cores: []string{"a"}, collectors: []string{"a"}, refused: "ba"},
		{name: "the cores get the new key", cores: []string{"a", "ab"}, collectors: []string{"a"}, refused: "c"},
		{name: "the new key becomes the first one", cores: []string{"ab", "ba"}, collectors: []string{"a", "ab", "ba"}, refused: "c"},
		{name: "the old key is removed", cores: []string{"ba", "b"}, collectors: []string{"ba", "b"}, refused: "c"},
		{name: "after the rotation", cores: []string{"b"}, collectors: []string{"b"}, refused: "ab"},
		{name: "the key was lost and reset", cores: []string{"d"}, collectors: []string{"d"}, refused: "b"},
	} {
		for _, list := range step.cores {
			c.write(list)
			for _, collector := range step.collectors {
				k, err := c.start(collector, slog.New(slog.DiscardHandler))
				if err != nil {
					t.Errorf("%s: a collector with the keys %s does not start after a core with the keys %s: %v", step.name, collector, list, err)
					continue
				}
				closeKey(t, k)
			}
		}
		refused := false
		for range 5 { // a response that takes longer than a second is not compared
			k, err := c.start(step.refused, slog.New(slog.DiscardHandler))
			if refused = err != nil; refused {
				break
			}
			closeKey(t, k)
		}
		if !refused {
			t.Errorf("%s: a collector with the keys %s starts", step.name, step.refused)
		}
	}
}

// A running collector whose key becomes wrong logs this once. If Redis does not respond, the
// last result remains.
func TestHashKey_ReportsChanges(t *testing.T) {
	c := &cores{T: t, url: redistest.New(t)}
	var out bytes.Buffer
	k, err := c.start("a", slog.New(slog.NewTextHandler(&out, nil)))
	if err != nil {
		t.Fatalf("without a list, a collector does not start: %v", err)
	}
	defer closeKey(t, k)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for _, step := range []struct {
		name   string
		change func()
		ctx    context.Context
		wrong  float64
		lines  int // of the log in total
	}{
		{name: "without a list", change: func() {}},
		{name: "with the key", change: func() { c.write("ba") }},
		{name: "without the key", change: func() { c.write("b") }, wrong: 1, lines: 1},
		{name: "still without the key", change: func() { c.write("bc") }, wrong: 1, lines: 1},
		{name: "without Redis", change: func() {}, ctx: canceled, wrong: 1, lines: 1},
		{name: "after a flush of Redis", change: c.flush, wrong: 1, lines: 1},
		{name: "with the key again", change: func() { c.write("ab") }, lines: 2},
	} {
		step.change()
		if step.ctx == nil {
			step.ctx = t.Context()
		}
		k.compareAgain(step.ctx)
		if got, lines := testutil.ToFloat64(k.wrong), strings.Count(out.String(), "\n"); got != step.wrong || lines != step.lines {
			t.Errorf("%s: the metric is %v, want %v, and the log has %d lines, want %d:\n%s", step.name, got, step.wrong, lines, step.lines, &out)
		}
	}
	if !strings.Contains(out.String(), `level=ERROR msg="the hash key is wrong"`) || !strings.Contains(out.String(), "level=INFO") {
		t.Errorf("the log is\n%s", &out)
	}
}
