package settings_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/settings"
)

// landingEnviron returns an environment with the required settings of the landing service
// and the given lines.
func landingEnviron(lines ...string) []string {
	return append([]string{"TRIBUTARY_LANDING_DATABASE_URL=postgres://127.0.0.1/landing", "TRIBUTARY_HASH_KEY=" + hashKey}, lines...)
}

func TestParseLanding_SetsDefaults(t *testing.T) {
	cfg, err := settings.Parse[settings.Landing](landingEnviron())
	if err != nil {
		t.Fatal(err)
	}
	if cfg.Listen != "127.0.0.1:8083" || cfg.LandingMetricsListen != "127.0.0.1:9102" || cfg.Limit != 5 || cfg.WaitlistBase() != 0 || cfg.WaitlistTotal() != 1000 ||
		cfg.Cache(nil).URL != "" || len(cfg.Origins) != 0 || cfg.AllowHTTP || cfg.DatabaseURL() != "postgres://127.0.0.1/landing" {
		t.Errorf("the default settings of the landing service are wrong: %+v", cfg)
	}
}

// The landing service can run with the environment of the core.
func TestParseLanding_UsesSettingsOfCore(t *testing.T) {
	cfg, err := settings.Parse[settings.Landing](coreEnviron("TRIBUTARY_CACHE_REDIS_URL=redis://cache", "TRIBUTARY_LANDING_ORIGINS=https://a.example,https://b.example:8443"))
	if err != nil || cfg.DatabaseURL() != "postgres://127.0.0.1/x" || cfg.Cache(nil).URL != "redis://cache" || len(cfg.Origins) != 2 {
		t.Errorf("Parse = %+v, %v; want the database and the caches of the core", cfg, err)
	}
	if cfg, err = settings.Parse[settings.Landing](coreEnviron()); err != nil || cfg.Cache(nil).URL != "redis://127.0.0.1" {
		t.Errorf("Parse = %+v, %v; want the only Redis of the core", cfg, err)
	}
	if _, err := settings.Parse[settings.Core](coreEnviron("TRIBUTARY_LANDING_LISTEN=:80", "TRIBUTARY_OPERATOR_EMAIL=a@example.com", "TRIBUTARY_WAITLIST_BASE=1", "WAITLIST_TOTAL=2")); err != nil {
		t.Errorf("the core refuses settings of the landing service: %v", err)
	}
}

func TestParseLanding_WaitlistHasTwoNames(t *testing.T) {
	file := filepath.Join(t.TempDir(), "base")
	if err := os.WriteFile(file, []byte("33\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		lines       []string
		base, total int32
	}{
		{[]string{"WAITLIST_BASE=12", "WAITLIST_TOTAL=500"}, 12, 500},
		{[]string{"TRIBUTARY_WAITLIST_BASE=12", "TRIBUTARY_WAITLIST_TOTAL=500"}, 12, 500},
		{[]string{"WAITLIST_BASE=0", "TRIBUTARY_WAITLIST_TOTAL=2147483647"}, 0, 2147483647},
		{[]string{"WAITLIST_BASE_FILE=" + file}, 33, 1000},
		{[]string{"TRIBUTARY_WAITLIST_BASE_FILE=" + file, "WAITLIST_TOTAL=0"}, 33, 0},
	} {
		cfg, err := settings.Parse[settings.Landing](landingEnviron(test.lines...))
		if err != nil || cfg.WaitlistBase() != test.base || cfg.WaitlistTotal() != test.total {
			t.Errorf("%v: %d of %d, %v; want %d of %d", test.lines, cfg.WaitlistBase(), cfg.WaitlistTotal(), err, test.base, test.total)
		}
	}
}

func TestParseLanding_ErrorNamesAllVariablesAndNoValues(t *testing.T) {
	_, err := settings.Parse[settings.Landing]([]string{
		"TRIBUTARY_HASH_KEY=c2VjcmV0", "TRIBUTARY_LIMIT_LANDING=0", "TRIBUTARY_LANDING_ORIGINS=hunter2", "TRIBUTARY_OPERATOR_EMAIL=hunter2",
		"TRIBUTARY_SMTP_URL=http://hunter2", "WAITLIST_BASE=-1", "TRIBUTARY_WAITLIST_TOTAL=hunter2", "TRIBUTARY_CACHE_REDIS_URL=hunter2",
		"TRIBUTARY_TLS_KEY=/key.pem", "TRIBUTARY_LIMIT_TIMEOUT=2s", "TRIBUTARY_WAITLIST_BASSE=1",
	})
	if err == nil {
		t.Fatal("the environment was accepted")
	}
	for _, want := range []string{
		"TRIBUTARY_HASH_KEY", "TRIBUTARY_LIMIT_LANDING: must be at least 1", "TRIBUTARY_LANDING_ORIGINS", "TRIBUTARY_OPERATOR_EMAIL", "TRIBUTARY_SMTP_URL:",
		"TRIBUTARY_SMTP_URL requires TRIBUTARY_MAIL_FROM", "WAITLIST_BASE: must be between 0 and 2147483647", "TRIBUTARY_WAITLIST_TOTAL", "TRIBUTARY_CACHE_REDIS_URL",
		"TRIBUTARY_TLS_CERT and TRIBUTARY_TLS_KEY", "TRIBUTARY_LIMIT_TIMEOUT", "TRIBUTARY_LANDING_DATABASE_URL or TRIBUTARY_DATABASE_URL must be set",
		"TRIBUTARY_WAITLIST_BASSE is not a setting: did you mean TRIBUTARY_WAITLIST_BASE?",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error contains a value:\n%v", err)
	}
	for _, name := range []string{"WAITLIST_BASE", "WAITLIST_TOTAL"} {
		_, err := settings.Parse[settings.Landing](landingEnviron(name+"=1", "TRIBUTARY_"+name+"=1"))
		if want := name + " and TRIBUTARY_" + name + " must not both be set"; err == nil || err.Error() != want {
			t.Errorf("both names of %s: %v, want %q", name, err, want)
		}
	}
	if _, err := settings.Parse[settings.LandingDatabase](nil); err == nil {
		t.Error("the settings of `landing migrate` were accepted without a database")
	}
}
