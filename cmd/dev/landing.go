package main

import (
	"context"
	_ "embed"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tributary-hq/tributary/cmd/assemble"
	"github.com/tributary-hq/tributary/cmd/certificates"
	"github.com/tributary-hq/tributary/cmd/clock"
	"github.com/tributary-hq/tributary/cmd/settings"
	"github.com/tributary-hq/tributary/landing/store"
)

// The settings of the landing service that dev sets.
const (
	landingOriginsName = "TRIBUTARY_LANDING_ORIGINS"
	operatorEmailName  = "TRIBUTARY_OPERATOR_EMAIL"
)

// demoOperator is the recipient of contact messages. The mail sink receives them.
const demoOperator = "operator@tributary.localhost"

// landingPath is the path of the demo's landing page on the server of the demo shop.
const landingPath = "/landing"

// landingPage is the template of the demo's landing page, with the two forms.
//
//go:embed landing.html
var landingPage string

var landingTemplate = template.Must(template.New("landing").Parse(landingPage))

// setLanding sets the settings of the landing service that the map values does not contain. The
// demo's landing page is on the server of the demo shop, so its scripts call another origin.
// setLanding must be called before sendToSink, because the default recipient of contact
// messages exists only in the mail sink.
func setLanding(values map[string]string, listeners portListeners) {
	if isMissing(values, landingOriginsName) {
		values[landingOriginsName] = "http://" + address(listeners.shop())
	}
	if isMissing(values, smtpURLName) && isMissing(values, operatorEmailName) {
		values[operatorEmailName] = demoOperator
	}
}

// newLanding migrates the database of the landing service and creates the service.
func newLanding(ctx context.Context, cfg settings.Landing, d *databases, log *slog.Logger, registry prometheus.Registerer) (*assemble.Landing, error) {
	cfg.CoreURL = d.postgresURL
	cfg.RedisURL = d.redisURL
	if err := store.Migrate(ctx, cfg.DatabaseURL()); err != nil {
		return nil, fmt.Errorf("migrate the landing service: %w", err)
	}
	return assemble.NewLanding(ctx, cfg, certificates.New(log), log, registry, clock.Manual(time.Now))
}

// writeLandingPage writes the landing page. service is the base URL of the landing service.
func writeLandingPage(w http.ResponseWriter, service string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	// An error means that the visitor's connection has ended.
	_ = landingTemplate.Execute(w, map[string]string{"Service": service})
}
