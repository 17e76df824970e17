package collector

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/oschwald/maxminddb-golang/v2"
)

const (
	// countryVariable is the setting with the path of the file.
	countryVariable = "TRIBUTARY_COUNTRY_DB"
	// countryCheckInterval is the time between two checks whether the file was replaced.
	countryCheckInterval = 30 * time.Second
	// maxCachedPlaces bounds the cache of decoded records. An entry takes about 150
	// bytes.
	maxCachedPlaces = 50_000
)

// countries looks up the country of an address in a MaxMind file. It reads the file into
// memory, because a memory-mapped file that is overwritten in place would crash the
// process. A nil *countries finds no country.
type countries struct {
	path string
	log  *slog.Logger
	file atomic.Pointer[countryFile]
	// seen identifies the file at the last attempt to read it. It is zero if the file was
	// missing.
	seen fileState
}

// countryFile is the content of a file with a cache of decoded records, because decoding
// a record takes ten times as long as finding it. Many networks, often all of a country,
// share one record.
type countryFile struct {
	*maxminddb.Reader
	places *lru.Cache[uintptr, place] // by record offset
}

// place is a country. If the file contains cities, it also has the first subdivision.
type place struct{ country, region string }

// fileState identifies a version of the file.
type fileState struct {
	modified time.Time
	size     int64
}

// openCountries reads the file at path; without a path it returns nil.
func openCountries(path string, log *slog.Logger) (*countries, error) {
	if path == "" {
		return nil, nil
	}
	c := &countries{path: path, log: log}
	if err := c.load(); err != nil {
		return nil, fmt.Errorf("%s: %w", countryVariable, withoutPath(err))
	}
	return c, nil
}

// run reads the file again when it was replaced, until ctx ends.
func (c *countries) run(ctx context.Context) {
	tick := time.NewTicker(countryCheckInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			c.refresh()
		}
	}
}

// refresh reads the file if it was replaced. A file that cannot be used is logged once
// and ignored.
func (c *countries) refresh() {
	var now fileState
	info, err := os.Stat(c.path)
	if err == nil {
		now = stateOf(info)
	}
	if now == c.seen {
		return
	}
	c.seen = now
	if err == nil {
		err = c.load()
	}
	if err != nil {
		c.log.Error("the new country file cannot be used; the previous one stays in use", "variable", countryVariable, "error", withoutPath(err))
		return
	}
	c.log.Info("the country file was replaced", "built", c.file.Load().Metadata.BuildTime())
}

func (c *countries) load() error {
	file, err := os.Open(c.path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	c.seen = stateOf(info)
	text := make([]byte, c.seen.size)
	if _, err = io.ReadFull(file, text); err != nil {
		return err
	}
	if info, err = file.Stat(); err != nil || stateOf(info) != c.seen {
		return errors.Join(errors.New("the file changed while it was read"), err)
	}
	reader, err := maxminddb.OpenBytes(text)
	if err != nil {
		return err
	}
	if !hasCountries(reader) {
		return errors.New("the file has no countries")
	}
	c.file.Store(&countryFile{reader, newCache[uintptr, place](maxCachedPlaces)})
	return nil
}

// hasCountries reports whether any network of the file has a country. Other kinds of
// MaxMind files have none.
func hasCountries(reader *maxminddb.Reader) bool {
	for network := range reader.Networks() {
		if placeOf(network).country != "" {
			return true
		}
	}
	return false
}

// place returns the place of an address. It is empty if the file does not contain the
// address.
func (c *countries) place(addr netip.Addr) place {
	if c == nil || !addr.IsValid() {
		return place{}
	}
	file := c.file.Load()
	found := file.Lookup(addr.Unmap())
	if !found.Found() {
		return place{}
	}
	cached, ok := file.places.Peek(found.Offset())
	if !ok {
		cached = placeOf(found)
		file.places.Add(found.Offset(), cached)
	}
	return cached
}

// placeOf decodes a record. It ignores values that are not ISO 3166 codes.
func placeOf(found maxminddb.Result) place {
	var record struct {
		Country struct {
			Code string `maxminddb:"iso_code"`
		} `maxminddb:"country"`
		Subdivisions []struct {
			Code string `maxminddb:"iso_code"`
		} `maxminddb:"subdivisions"`
	}
	if err := found.Decode(&record); err != nil || len(record.Country.Code) != 2 {
		return place{}
	}
	result := place{country: record.Country.Code}
	if len(record.Subdivisions) > 0 && len(record.Subdivisions[0].Code) <= 3 {
		result.region = record.Subdivisions[0].Code
	}
	return result
}

func stateOf(info fs.FileInfo) fileState { return fileState{info.ModTime(), info.Size()} }

// withoutPath removes the path, which is the value of a setting, from an error.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
