package settings

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"

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
	if c, ok := any(&out).(interface{ check() []error }); ok {
		faults = append(faults, c.check()...)
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
