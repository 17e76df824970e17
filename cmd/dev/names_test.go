package main

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/tributary-hq/tributary/cmd/settings"
)

// Every program accepts every variable that `make run` writes to .dev/env, so that a
// shell that has sourced .dev/env can start the programs.
func TestVariables_AreKnownSettings(t *testing.T) {
	var environ []string
	for _, v := range append(systemAddresses{}.variables(nil), ports...) {
		environ = append(environ, v.name+"=x")
	}
	for _, name := range []string{allowHTTPName, trustedProxiesName, shutdownDelayName, webhookAllowName, webhookCAName, smtpURLName, mailFromName, publicURLName, landingOriginsName, operatorEmailName} {
		environ = append(environ, name+"=x")
	}
	var log bytes.Buffer
	settings.WarnUnknown(slog.New(slog.NewTextHandler(&log, nil)), environ)
	if log.Len() > 0 {
		t.Errorf("WarnUnknown reported variables of make run:\n%s", &log)
	}
}

func TestConfigure_RejectsMisspeltSetting(t *testing.T) {
	secrets, err := loadSecrets(t.TempDir() + "/secrets")
	if err != nil {
		t.Fatal(err)
	}
	_, _, _, err = configure(environment([]string{"TRIBUTARY_API_LISTN=127.0.0.1:0"}, secrets, nil))
	if want := "TRIBUTARY_API_LISTN is not a setting: did you mean TRIBUTARY_API_LISTEN?"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("configure returned %v, want %s", err, want)
	}
}
