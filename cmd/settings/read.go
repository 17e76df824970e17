package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/caarlos0/env/v11"
)

// fileSuffix is the suffix of the name of a variable whose value is the path of a file.
// The file contains the value of the setting.
const fileSuffix = "_FILE"

// Read returns the settings of type T from the environment of the process.
func Read[T any]() (T, error) { return Parse[T](os.Environ()) }

// Parse returns the settings of type T from lines of the form NAME=value.
func Parse[T any](environ []string) (T, error) {
	var out T
	values := env.ToMap(environ)
	faults := misspellings(values)
	values, fileErrors := readFiles(values)
	faults = append(faults, fileErrors...)
	err := env.ParseWithOptions(&out, env.Options{Environment: values})
	var aggregate env.AggregateError
	switch {
	case errors.As(err, &aggregate):
		for _, parseErr := range aggregate.Errors {
			faults = append(faults, withVariable(reflect.TypeFor[T](), parseErr))
		}
	case err != nil:
		faults = append(faults, err)
	}
	if d, ok := any(&out).(interface{ setDefaults() }); ok {
		d.setDefaults()
	}
	if c, ok := any(&out).(interface{ check() error }); ok {
		faults = append(faults, c.check())
	}
	return out, errors.Join(faults...)
}

// readFiles reads the file of each variable NAME_FILE and sets NAME to its content, if
// NAME is a setting. TRIBUTARY_FX_FILE and TRIBUTARY_WEBHOOK_CA_FILE are settings
// themselves and are not changed.
func readFiles(values map[string]string) (map[string]string, []error) {
	var faults []error
	for name, path := range values {
		base, ok := strings.CutSuffix(name, fileSuffix)
		if !ok || !knownNames[base] || path == "" {
			continue
		}
		if values[base] != "" {
			faults = append(faults, fmt.Errorf("%s and %s must not both be set", base, name))
			continue
		}
		body, err := os.ReadFile(path) // #nosec G304 -- the operator names the file
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", name, err))
			continue
		}
		values[base] = strings.TrimSpace(string(body))
	}
	return values, faults
}

// withVariable returns an error of the parser with the name of the variable instead of the
// name of the field. If a number or a boolean is invalid, withVariable also removes the value
// from the error.
func withVariable(t reflect.Type, err error) error {
	var parseErr env.ParseError
	if !errors.As(err, &parseErr) {
		return err
	}
	cause := parseErr.Err
	var numErr *strconv.NumError
	if errors.As(cause, &numErr) {
		cause = numErr.Err
	}
	name := parseErr.Name
	if field, ok := t.FieldByName(parseErr.Name); ok {
		name, _, _ = strings.Cut(field.Tag.Get("env"), ",")
	}
	return fmt.Errorf("%s: %w", name, cause)
}

func (r *Redis) setDefaults() { r.StreamShards = shards(r.StreamShards, r.StreamRedis) }

func (c *Core) setDefaults() {
	c.RegionShards = shards(c.StreamShards, c.RegionRedis)
	c.Redis.setDefaults()
}

const namePrefix = "TRIBUTARY_"

// maxEdits is the maximum number of inserted, deleted and replaced characters by which a
// misspelling differs from the name of a setting.
const maxEdits = 2

// Development holds the variables that only `make run` uses. `make run` reads ShopListen,
// MailSMTPListen and MailSinkListen, and writes the other variables to .dev/env.
type Development struct {
	ShopListen     string `env:"TRIBUTARY_SHOP_LISTEN" envDefault:"127.0.0.1:8082"`
	MailSMTPListen string `env:"TRIBUTARY_MAIL_SMTP_LISTEN" envDefault:"127.0.0.1:1025"`
	MailSinkListen string `env:"TRIBUTARY_MAIL_SINK_LISTEN" envDefault:"127.0.0.1:8084"`
	ShopURL        string `env:"TRIBUTARY_SHOP_URL"`
	MailSinkURL    string `env:"TRIBUTARY_MAIL_SINK_URL"`
	APIURL         string `env:"TRIBUTARY_API_URL"`
	CollectorURL   string `env:"TRIBUTARY_COLLECTOR_URL"`
	LandingURL     string `env:"TRIBUTARY_LANDING_URL"`
	MetricsURL     string `env:"TRIBUTARY_METRICS_URL"`
}

// knownNames contains the names of the settings of all binaries, with and without
// fileSuffix. Every binary accepts all these names, because several binaries may run with
// the same environment.
var knownNames = func() map[string]bool {
	names := map[string]bool{}
	for _, t := range []reflect.Type{
		reflect.TypeFor[Core](), reflect.TypeFor[Gateway](), reflect.TypeFor[Collector](), reflect.TypeFor[Landing](), reflect.TypeFor[Development](),
	} {
		addNames(names, t)
	}
	return names
}()

func addNames(names map[string]bool, t reflect.Type) {
	for i := range t.NumField() {
		field := t.Field(i)
		if name, _, _ := strings.Cut(field.Tag.Get("env"), ","); name != "" {
			names[name], names[name+fileSuffix] = true, true
		} else if field.Type.Kind() == reflect.Struct {
			addNames(names, field.Type)
		}
	}
}

// foreignName matches names that begin with namePrefix but belong to other programs, so
// they are not misspelt settings. Kubernetes defines variables for each service in a
// namespace, and a service may be called tributary. Tests have their own variables.
var foreignName = regexp.MustCompile(`_SERVICE_HOST$|_PORT(_|$)|^` + namePrefix + `TEST_`)

func unknownNames(values map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if strings.HasPrefix(name, namePrefix) && !knownNames[name] && !foreignName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

// nearest returns the setting whose name is most similar to name. found is false if no
// setting has a similar name.
func nearest(name string) (setting string, found bool) {
	least := maxEdits + 1
	for _, candidate := range slices.Sorted(maps.Keys(knownNames)) {
		if edits := levenshtein.ComputeDistance(name, candidate); edits < least {
			setting, least = candidate, edits
		}
	}
	return setting, least <= maxEdits
}

// misspellings returns an error for each unknown name that is similar to a setting.
func misspellings(values map[string]string) []error {
	var faults []error
	for _, name := range unknownNames(values) {
		if setting, found := nearest(name); found {
			faults = append(faults, fmt.Errorf("%s is not a setting: did you mean %s?", name, setting))
		}
	}
	return faults
}

// WarnUnknown logs each variable that has the prefix of settings but is not a setting.
// Parse returns an error for names that are similar to a setting.
func WarnUnknown(log *slog.Logger, environ []string) {
	for _, name := range unknownNames(env.ToMap(environ)) {
		log.Warn("the environment contains an unknown setting, which is ignored", slog.String("setting", name))
	}
}
