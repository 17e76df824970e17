package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/directory"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// writeHashKeys writes the fingerprint of the only hash key of a core.
func writeHashKeys(t *testing.T, redisURL string, version int64, key []byte) {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: redisURL})
	check(t, err)
	defer func() { _ = client.Close() }()
	batch := directory.NewWriter(client).Batch()
	batch.PutHashKeys(version, &edgev1.HashKeys{Fingerprints: [][]byte{settings.HashKeys{key}.SettingKeys().Fingerprints()[0].Fingerprint}})
	check(t, batch.Flush(t.Context()))
}

func TestRun_RefusesHashKeyThatCoresDoNotHave(t *testing.T) {
	redisURL := redistest.New(t)
	setSettings(t, redisURL)
	core := bytes.Repeat([]byte{1}, 32)
	writeHashKeys(t, redisURL, 1, core)
	t.Setenv("TRIBUTARY_HASH_KEY", base64.StdEncoding.EncodeToString(make([]byte, 32))+","+base64.StdEncoding.EncodeToString(core))
	const want = "TRIBUTARY_HASH_KEY: the first key is not among the keys of the cores; set the same keys as for the cores; if the keys are new, restart the cores first"
	var err error
	// If the response takes longer than a second, the collector starts. On a slow machine, it
	// must be started again.
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = run(ctx, clock.New(time.Now))
		cancel()
		if err != nil {
			break
		}
	}
	if err == nil || err.Error() != want {
		t.Errorf("run returned the error %v, want %s", err, want)
	}
}

// Without Redis, and without a list in Redis, a collector starts whatever its hash key. When the
// cores have written their list, the metric shows that the key is wrong. Clicks are accepted all
// the time.
func TestRun_ComparesHashKeyWhileRunning(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill9()
	clicks, metrics := setSettings(t, redis.URL)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, clock.New(time.Now)) }()

	accepted := func() bool { return sendClick(t, clicks) == http.StatusCreated }
	wrong := func(value string) func() bool {
		return func() bool {
			return strings.Contains(get(t, metrics+"/metrics"), "tributary_collector_hash_key_wrong "+value+"\n")
		}
	}
	await(t, "a click is stored in the journal", accepted)
	redis.Restart()
	for version, key := range [][]byte{bytes.Repeat([]byte{1}, 32), make([]byte, 32)} {
		want := "1"
		if version == 1 { // the collector has this key
			want = "0"
		}
		writeHashKeys(t, redis.URL, int64(version)+1, key)
		await(t, "the metric is "+want, wrong(want))
		await(t, "a click is accepted", accepted)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
