package settings_test

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/settings"
)

func TestParse_RejectsMisspeltNames(t *testing.T) {
	for name, want := range map[string]string{
		"TRIBUTARY_LIMIT_CONVERSION":    "TRIBUTARY_LIMIT_CONVERSION is not a setting: did you mean TRIBUTARY_LIMIT_CONVERSIONS?",
		"TRIBUTARY_LIMITAUTH":           "did you mean TRIBUTARY_LIMIT_AUTH?",
		"TRIBUTARY_HASHKEY_FILE":        "did you mean TRIBUTARY_HASH_KEY_FILE?",
		"TRIBUTARY_WEBHOOK_ALLOW_CIDRX": "did you mean TRIBUTARY_WEBHOOK_ALLOW_CIDRS?",
		"TRIBUTARY_COUNTRYDB":           "did you mean TRIBUTARY_COUNTRY_DB?", // a setting of the collector, misspelt for the core
		"TRIBUTARY_SHOP_LITSEN":         "did you mean TRIBUTARY_SHOP_LISTEN?",
	} {
		_, err := settings.Parse[settings.Core](coreEnviron(name + "=hunter2"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got the error %v, want %q", name, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: the error contains the value: %v", name, err)
		}
	}
	// Every binary must reject a misspelt name, even if it reads only one setting.
	misspelt := "TRIBUTARY_LIMIT_AUHT=1"
	_, migrate := settings.Parse[settings.Database](coreEnviron(misspelt))
	_, gateway := settings.Parse[settings.Gateway](coreEnviron(misspelt, "TRIBUTARY_GRPC_ADDR=127.0.0.1:9090"))
	_, collector := settings.Parse[settings.Collector](coreEnviron(misspelt))
	for binary, err := range map[string]error{"core migrate": migrate, "gateway": gateway, "collector": collector} {
		if err == nil || err.Error() != "TRIBUTARY_LIMIT_AUHT is not a setting: did you mean TRIBUTARY_LIMIT_AUTH?" {
			t.Errorf("%s: Parse returned %v, want an error about TRIBUTARY_LIMIT_AUHT", binary, err)
		}
	}
}

func TestParse_AllowsSettingsOfOtherBinaries(t *testing.T) {
	environ := coreEnviron(
		"TRIBUTARY_COUNTRY_DB=/geo.mmdb", "TRIBUTARY_LIMIT_TRACKING=5", "TRIBUTARY_GRPC_ADDR=127.0.0.1:9090", // settings of the collector and the gateway
		"TRIBUTARY_SHOP_LISTEN=127.0.0.1:0", "TRIBUTARY_API_URL=http://127.0.0.1:8080", // variables of `make run`
		"TRIBUTARY_SERVICE_HOST=10.0.0.1", "TRIBUTARY_API_PORT=tcp://10.0.0.1:80", "TRIBUTARY_API_PORT_80_TCP_ADDR=10.0.0.1", // variables of Kubernetes
		"TRIBUTARY_TEST_REDIS_URL=redis://127.0.0.1",
	)
	if _, err := settings.Parse[settings.Core](environ); err != nil {
		t.Error(err)
	}
	if log := warnings(environ); log != "" {
		t.Errorf("unexpected warnings: %s", log)
	}
}

func TestWarnUnknown_LogsUnknownNames(t *testing.T) {
	environ := coreEnviron("TRIBUTARY_TURBO=hunter2")
	if _, err := settings.Parse[settings.Core](environ); err != nil {
		t.Error(err)
	}
	if log := warnings(environ); !strings.Contains(log, "level=WARN") || !strings.Contains(log, "setting=TRIBUTARY_TURBO") || strings.Contains(log, "hunter2") {
		t.Errorf("WarnUnknown logged %q, want a warning that names TRIBUTARY_TURBO without its value", log)
	}
}

func warnings(environ []string) string {
	var log bytes.Buffer
	settings.WarnUnknown(slog.New(slog.NewTextHandler(&log, nil)), environ)
	return log.String()
}
