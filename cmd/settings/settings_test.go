package settings_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/test/authority"
)

var hashKey = base64.StdEncoding.EncodeToString(make([]byte, 32))

// coreEnviron returns an environment with the required settings of the core and the given
// lines.
func coreEnviron(lines ...string) []string {
	return append([]string{
		"TRIBUTARY_DATABASE_URL=postgres://127.0.0.1/x", "TRIBUTARY_REDIS_URL=redis://127.0.0.1", "TRIBUTARY_JWT_KEYS=k:x",
		"TRIBUTARY_HASH_KEY=" + hashKey, "TRIBUTARY_ENCRYPTION_KEYS=k:x", "PATH=/bin",
	}, lines...)
}

func TestParse_SetsDefaults(t *testing.T) {
	cfg, err := settings.Parse[settings.Core](coreEnviron())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.APIListen != "127.0.0.1:8080" || cfg.GRPCListen != "127.0.0.1:9090" || cfg.MetricsListen != "127.0.0.1:9100" ||
		cfg.Conversions != 120 || cfg.Auth != 10 || cfg.General != 300 || cfg.AllowHTTP || len(cfg.TrustedProxies) != 0 ||
		!reflect.DeepEqual(cfg.Cache(nil), cfg.Stream(nil)) || cfg.StreamShards != 1 || len(cfg.WebhookAllowCIDRs) != 0 {
		t.Errorf("the default settings of the core are wrong: %+v", cfg)
	}
	collector, err := settings.Parse[settings.Collector](coreEnviron())
	if err != nil || collector.Listen != "127.0.0.1:8081" || collector.Tracking != 1000 {
		t.Errorf("the collector listens on %s with the limit %d, error %v; want 127.0.0.1:8081 and 1000", collector.Listen, collector.Tracking, err)
	}
	if !reflect.DeepEqual(collector.Cache(nil), collector.Stream(nil)) || collector.StreamShards != 1 || len(collector.HashKeys.Keys().First()) != 32 {
		t.Errorf("the collector has %d shards and a hash key of %d bytes, want 1 and 32; its cache is %v and its stream %v, want the same", collector.StreamShards, len(collector.HashKeys.Keys().First()), collector.Cache(nil), collector.Stream(nil))
	}
}

func TestParse_ErrorNamesAllVariablesAndNoValues(t *testing.T) {
	_, err := settings.Parse[settings.Core]([]string{
		"TRIBUTARY_REDIS_URL=redis://:hunter2@host", "TRIBUTARY_HASH_KEY=c2VjcmV0", "TRIBUTARY_LIMIT_AUTH=0", "TRIBUTARY_LIMIT_GENERAL=hunter2",
		"TRIBUTARY_TRUSTED_PROXIES=everywhere", "TRIBUTARY_TLS_CERT=/c.pem", "TRIBUTARY_STREAM_SHARDS=65", "TRIBUTARY_GRPC_TLS_CA=/ca.pem",
		"TRIBUTARY_JWT_KEYS_FILE=/does/not/exist", "TRIBUTARY_CLICK_STREAM_REDIS=hunter2",
		"TRIBUTARY_LINK_URL=https://go.example.com/path", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS=inside",
	})
	if err == nil {
		t.Fatal("the environment was accepted")
	}
	for _, name := range []string{
		"TRIBUTARY_DATABASE_URL", "TRIBUTARY_HASH_KEY", "TRIBUTARY_LIMIT_AUTH", "TRIBUTARY_LIMIT_GENERAL: invalid syntax", "TRIBUTARY_TRUSTED_PROXIES",
		"TRIBUTARY_TLS_KEY", "TRIBUTARY_STREAM_SHARDS", "TRIBUTARY_CLICK_STREAM_REDIS", "TRIBUTARY_GRPC_TLS_CA", "TRIBUTARY_JWT_KEYS_FILE",
		"TRIBUTARY_ENCRYPTION_KEYS", "TRIBUTARY_LINK_URL", "TRIBUTARY_WEBHOOK_ALLOW_CIDRS",
	} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("the error does not contain %s:\n%v", name, err)
		}
	}
	if strings.Contains(err.Error(), "c2VjcmV0") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error contains a secret:\n%v", err)
	}
}

func TestShutdownDelay_HasBounds(t *testing.T) {
	for value, valid := range map[string]bool{"": true, "0s": true, "10s": true, "10001ms": false, "-1s": false, "30": false} {
		_, err := settings.Parse[settings.Collector]([]string{
			"TRIBUTARY_REDIS_URL=redis://127.0.0.1", "TRIBUTARY_HASH_KEY=" + hashKey, "TRIBUTARY_SHUTDOWN_DELAY=" + value,
		})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "TRIBUTARY_SHUTDOWN_DELAY") {
			t.Errorf("%q: got the error %v, want a valid value: %t", value, err, valid)
		}
	}
}

func TestLogLevel(t *testing.T) {
	var level settings.LogLevel
	for text, want := range map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError} {
		if err := level.UnmarshalText([]byte(text)); err != nil || level.Level() != want {
			t.Errorf("%s is %v, error %v, want %v", text, level.Level(), err, want)
		}
	}
	_, err := settings.Parse[settings.Gateway]([]string{"TRIBUTARY_GRPC_ADDR=127.0.0.1:9090", "TRIBUTARY_LOG_LEVEL=verbose"})
	if err == nil || err.Error() != "TRIBUTARY_LOG_LEVEL: must be debug, info, warn or error" {
		t.Errorf("an unknown level returned the error %v", err)
	}
}

func TestLimitTimeout_HasBounds(t *testing.T) {
	for value, valid := range map[string]bool{"": true, "1ms": true, "1s": true, "999us": false, "1001ms": false, "-1s": false, "50": false} {
		_, err := settings.Parse[settings.Collector]([]string{
			"TRIBUTARY_REDIS_URL=redis://127.0.0.1", "TRIBUTARY_HASH_KEY=" + hashKey, "TRIBUTARY_LIMIT_TIMEOUT=" + value,
		})
		if (err == nil) != valid || err != nil && !strings.Contains(err.Error(), "TRIBUTARY_LIMIT_TIMEOUT") {
			t.Errorf("%q: got the error %v, want a valid value: %t", value, err, valid)
		}
	}
}

func TestCollectorLimits_HaveBounds(t *testing.T) {
	for line, want := range map[string]string{
		"TRIBUTARY_LIMIT_TRACKING=0":          "TRIBUTARY_LIMIT_TRACKING: must be at least 1",
		"TRIBUTARY_LIMIT_TRACKING_ADDRESS=-1": "TRIBUTARY_LIMIT_TRACKING_ADDRESS: must be at least 0",
	} {
		if _, err := settings.Parse[settings.Collector](collectorEnviron(singleURL, line)); err == nil || err.Error() != want {
			t.Errorf("%s: got the error %v, want %q", line, err, want)
		}
	}
}

func TestParse_ReadsSecretsFromFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hash")
	if err := os.WriteFile(path, []byte(hashKey+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"TRIBUTARY_REDIS_URL=redis://127.0.0.1", "TRIBUTARY_HASH_KEY_FILE=" + path}
	cfg, err := settings.Parse[settings.Collector](environ)
	if err != nil || len(cfg.HashKeys.Keys().First()) != 32 {
		t.Errorf("Parse read a key of %d bytes from the file, error %v; want 32 bytes", len(cfg.HashKeys.Keys().First()), err)
	}
	if _, err = settings.Parse[settings.Collector](append(environ, "TRIBUTARY_HASH_KEY="+hashKey)); err == nil {
		t.Error("a setting with both a value and a file was accepted")
	}
}

func TestParse_ReadsHashKeys(t *testing.T) {
	key := func(fill byte, size int) string {
		return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{fill}, size))
	}
	a, b, c, d := key(1, 32), key(2, 33), key(3, 64), key(4, 32)
	for name, tc := range map[string]struct {
		value string
		want  []byte // the first bytes of the keys
		fault string
	}{
		"one key":            {a, []byte{1}, ""},
		"three keys":         {b + ", " + a + "," + c, []byte{2, 1, 3}, ""},
		"four keys":          {a + "," + b + "," + c + "," + d, nil, "TRIBUTARY_HASH_KEY: must have at most 3 keys"},
		"a key twice":        {a + "," + b + "," + a, nil, "TRIBUTARY_HASH_KEY: keys 1 and 3 must not be the same"},
		"a short key":        {a + "," + key(2, 31), nil, "TRIBUTARY_HASH_KEY: key 2 of 2 must be base64 of at least 32 bytes"},
		"a comma at the end": {a + ",", nil, "TRIBUTARY_HASH_KEY: key 2 of 2 must be base64 of at least 32 bytes"},
		"no base64":          {"k1:" + a, nil, "TRIBUTARY_HASH_KEY: key 1 of 1 must be base64 of at least 32 bytes"},
	} {
		environ := []string{"TRIBUTARY_REDIS_URL=redis://127.0.0.1", "TRIBUTARY_HASH_KEY=" + tc.value}
		cfg, err := settings.Parse[settings.Collector](environ)
		if tc.fault != "" {
			if err == nil || err.Error() != tc.fault {
				t.Errorf("%s: the error is %v, want %s", name, err, tc.fault)
			}
			continue
		}
		var got []byte
		for _, key := range cfg.HashKeys.Keys() {
			got = append(got, key[0])
		}
		if err != nil || !bytes.Equal(got, tc.want) || strings.Contains(fmt.Sprint(cfg.HashKeys, cfg.HashKeys.Keys()), "1") {
			t.Errorf("%s: the keys begin with %v, error %v, want %v; they are printed as %v", name, got, err, tc.want, cfg.HashKeys)
		}
	}
}

func TestParse_DoesNotReadFXFile(t *testing.T) {
	cfg, err := settings.Parse[settings.Core](coreEnviron("TRIBUTARY_FX_FILE=/not/there/yet.csv"))
	if err != nil || cfg.FXFile != "/not/there/yet.csv" {
		t.Errorf("Parse returned the file %q and the error %v, want /not/there/yet.csv", cfg.FXFile, err)
	}
}

func TestWebhookSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ca.pem")
	cfg, err := settings.Parse[settings.Core](coreEnviron("TRIBUTARY_WEBHOOK_ALLOW_CIDRS=10.1.0.0/16, ::1/128", "TRIBUTARY_WEBHOOK_CA_FILE="+path))
	if err != nil {
		t.Fatal(err)
	}
	if want := (settings.Prefixes{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128")}); !slices.Equal(cfg.WebhookAllowCIDRs, want) {
		t.Errorf("got %v, want %v", cfg.WebhookAllowCIDRs, want)
	}
	files := certificates.New(slog.New(slog.DiscardHandler))
	if _, err := cfg.WebhookRoots(files); err == nil {
		t.Error("a missing file was accepted")
	}
	if err := os.WriteFile(path, authority.New(t).Certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	if roots, err := cfg.WebhookRoots(files); err != nil || roots == nil || roots() == nil {
		t.Errorf("WebhookRoots returned the error %v, want the authorities of the file", err)
	}
	cfg.WebhookCAFile = ""
	if roots, err := cfg.WebhookRoots(files); roots != nil || err != nil {
		t.Errorf("WebhookRoots without a file returned authorities, error %v, want nil", err)
	}
}
