package settings_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/settings"
)

func regionsEnviron(lines ...string) []string {
	return append([]string{
		"TRIBUTARY_DATABASE_URL=postgres://localhost/tributary", "TRIBUTARY_REDIS_URL=" + singleURL, "TRIBUTARY_HASH_KEY=" + hashKey,
		"TRIBUTARY_JWT_KEYS=k:" + hashKey, "TRIBUTARY_ENCRYPTION_KEYS=k:" + hashKey,
	}, lines...)
}

func TestRegions(t *testing.T) {
	cfg, err := settings.Parse[settings.Core](regionsEnviron("TRIBUTARY_REGIONS=us=rediss://us:hunter2@a:6379/0\n asia=redis://b:6379"))
	if err != nil {
		t.Fatal(err)
	}
	want := settings.RegionList{{Name: "us", URL: "rediss://us:hunter2@a:6379/0"}, {Name: "asia", URL: "redis://b:6379"}}
	if !slices.Equal(cfg.Others, want) || cfg.HomeRegion != "home" || cfg.RegionShards != 1 {
		t.Errorf("got %v, %s and %d streams", cfg.Others, cfg.HomeRegion, cfg.RegionShards)
	}
}

func TestRegions_DefaultNumberOfStreamsFollowsTheKind(t *testing.T) {
	for _, c := range []struct {
		lines []string
		want  int
	}{
		{[]string{"TRIBUTARY_REGIONS=us=" + clusterURL, "TRIBUTARY_REGION_REDIS=cluster"}, 16},
		{[]string{"TRIBUTARY_REGIONS=us=" + clusterURL, "TRIBUTARY_REGION_REDIS=cluster", "TRIBUTARY_STREAM_SHARDS=4"}, 4},
	} {
		cfg, err := settings.Parse[settings.Core](regionsEnviron(c.lines...))
		if err != nil || cfg.RegionShards != c.want {
			t.Errorf("%q: got %d streams, %v, want %d", c.lines, cfg.RegionShards, err, c.want)
		}
	}
}

func TestRegions_ErrorNamesInvalidVariable(t *testing.T) {
	for _, c := range []struct{ line, variable string }{
		{"TRIBUTARY_REGIONS=redis://:hunter2@host", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=us", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=US=redis://:hunter2@host", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=us=redis://:hunter2@a us=redis://:hunter2@b", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=us=redis://:hunter2@a asia=redis://:hunter2@a", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=home=redis://:hunter2@a", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=us=" + singleURL, "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_REGIONS=us=http://:hunter2@a", "TRIBUTARY_REGIONS"},
		{"TRIBUTARY_HOME_REGION=EU", "TRIBUTARY_HOME_REGION"},
	} {
		_, err := settings.Parse[settings.Core](regionsEnviron(c.line))
		switch {
		case err == nil:
			t.Errorf("%q was accepted", c.line)
		case !strings.HasPrefix(err.Error(), c.variable):
			t.Errorf("%q: got the error %v, want one about %s", c.line, err, c.variable)
		case strings.Contains(err.Error(), "hunter2"):
			t.Errorf("the error contains the password: %v", err)
		}
	}
}
