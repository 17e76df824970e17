package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/cmd/clock"
	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
	"github.com/tributary-hq/tributary/storage/clickstream"
	"github.com/tributary-hq/tributary/storage/redistest"
)

// fast is a clock that is ten minutes ahead.
func fast() time.Time { return time.Now().Add(10 * time.Minute) }

// setSettings sets the environment of a collector and returns the addresses of its ports.
func setSettings(t *testing.T, redisURL string) (clicks, metrics string) {
	t.Helper()
	var addresses []string
	for _, name := range []string{"TRIBUTARY_COLLECTOR_LISTEN", "TRIBUTARY_METRICS_LISTEN"} {
		free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		check(t, err)
		addresses = append(addresses, free.Addr().String())
		check(t, free.Close())
		t.Setenv(name, addresses[len(addresses)-1])
	}
	for name, value := range map[string]string{
		"TRIBUTARY_REDIS_URL": redisURL, "TRIBUTARY_HASH_KEY": base64.StdEncoding.EncodeToString(make([]byte, 32)), "TRIBUTARY_JOURNAL_DIR": t.TempDir(),
		"TRIBUTARY_ALLOW_HTTP": "true", "TRIBUTARY_SHUTDOWN_DELAY": "0s",
	} {
		t.Setenv(name, value)
	}
	return "http://" + addresses[0], "http://" + addresses[1]
}

func TestRun_RefusesClockThatDiffersFromRedis(t *testing.T) {
	setSettings(t, redistest.New(t))
	const want = "the clock of this machine is 10m0s ahead of the clock of Redis (maximum: 30s): synchronise the clocks (NTP) and start again"
	var err error
	// If the response takes longer than a second, the collector does not compare the clocks at
	// the start. On a slow machine, it must be started again.
	for range 5 {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		err = run(ctx, clock.New(fast))
		cancel()
		if err != nil {
			break
		}
	}
	if err == nil || err.Error() != want {
		t.Errorf("run returned the error %v, want %s", err, want)
	}
}

// Without Redis, a collector starts and stores clicks in its journal, whatever its clock. When
// Redis responds, it compares the clocks and gives clicks the time of Redis.
func TestRun_ComparesClocksWhenRedisReturns(t *testing.T) {
	redis := redistest.Start(t)
	redis.Kill9()
	clicks, metrics := setSettings(t, redis.URL)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, clock.New(fast)) }()

	await(t, "a click is stored in the journal", func() bool { return sendClick(t, clicks) == http.StatusCreated })
	if got := get(t, metrics+"/metrics"); !strings.Contains(got, "tributary_clock_offset_seconds 0\n") {
		t.Errorf("without Redis, the metrics have no offset of 0:\n%s", got)
	}
	redis.Restart()
	await(t, "the clocks are compared", func() bool {
		return !strings.Contains(get(t, metrics+"/metrics"), "tributary_clock_offset_seconds 0\n")
	})
	if status := sendClick(t, clicks); status != http.StatusCreated {
		t.Errorf("the click after the comparison got the status %d, want 201", status)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := leads(t, redis.URL); len(got) != 2 || got[0] < 9*time.Minute || got[1].Abs() > time.Minute {
		t.Errorf("the clicks are ahead of Redis by %s, want the first by ten minutes and the last not", got)
	}
}

// sendClick sends a click of an unknown key, which a collector without an edge directory
// accepts. It returns the status, or 0 if the collector does not respond.
func sendClick(t *testing.T, collector string) int {
	t.Helper()
	body := fmt.Sprintf(`{"referral_code":"anna","public_key":%q}`, account.NewKey(account.PublicKey, affiliate.ModeTest).Reveal())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, collector+"/v1/clicks", strings.NewReader(body))
	check(t, err)
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0
	}
	check(t, response.Body.Close())
	return response.StatusCode
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	check(t, err)
	response, err := http.DefaultClient.Do(request)
	check(t, err)
	body, err := io.ReadAll(response.Body)
	check(t, err)
	check(t, response.Body.Close())
	return string(body)
}

// leads returns by how much the clicks in the stream are ahead of the current time, those that
// are furthest ahead first.
func leads(t *testing.T, redisURL string) (leads []time.Duration) {
	t.Helper()
	client, err := clickstream.Connect(clickstream.Endpoint{URL: redisURL})
	check(t, err)
	defer func() { _ = client.Close() }()
	entries, err := client.XRange(t.Context(), clickstream.Key(0), "-", "+").Result()
	check(t, err)
	for _, entry := range entries {
		for _, value := range entry.Values {
			var batch edgev1.ClickBatch
			if text, ok := value.(string); !ok || proto.Unmarshal([]byte(text), &batch) != nil {
				continue
			}
			for _, click := range batch.GetClicks() {
				leads = append(leads, time.Until(time.UnixMilli(click.GetReceivedAtMs())))
			}
		}
	}
	slices.SortFunc(leads, func(a, b time.Duration) int { return cmp.Compare(b, a) })
	return leads
}

// await waits until the condition is true.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute it is not true that %s", what)
		}
	}
}
