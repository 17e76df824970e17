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
	// countryVariable is the name of the setting that contains the path of the file.
	countryVariable = "TRIBUTARY_COUNTRY_DB"
	// countryCheckInterval is the time between two checks whether the file was replaced.
	countryCheckInterval = 30 * time.Second
	// maxCachedPlaces bounds the cache of decoded records. An entry takes about 150
	// bytes.
	maxCachedPlaces = 50_000
)

// countries looks up the country of an address in a MaxMind file. It reads the file into
// memory, because the process would crash if a mapped file were overwritten in place.
// Lookups in a nil *countries find no country.
type countries struct {
	path string
	log  *slog.Logger
	file atomic.Pointer[countryFile]
	// lastVersion is the version of the file at the last attempt to read it. It is zero
	// if the file was missing.
	lastVersion fileVersion
}

// countryFile is the content of a file, with a cache of decoded records. Decoding a
// record takes ten times as long as finding it, and many networks, often all networks of
// a country, share one record.
type countryFile struct {
	*maxminddb.Reader
	places *lru.Cache[uintptr, place] // by the offset of the record in the file
}

// place contains the ISO 3166 code of a country. If the file contains cities, it also
// contains the code of a region of that country.
type place struct{ country, region string }

type fileVersion struct {
	modified time.Time
	size     int64
}

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

// run checks regularly whether the file was replaced, and then reads the new file. It
// returns when ctx ends.
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

// refresh reads the file if it was replaced. If the new file cannot be used, refresh logs
// this once and keeps the content of the previous file.
func (c *countries) refresh() {
	var current fileVersion
	info, err := os.Stat(c.path)
	if err == nil {
		current = versionOf(info)
	}
	if current == c.lastVersion {
		return
	}
	c.lastVersion = current
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
	c.lastVersion = versionOf(info)
	text := make([]byte, c.lastVersion.size)
	if _, err = io.ReadFull(file, text); err != nil {
		return err
	}
	if info, err = file.Stat(); err != nil || versionOf(info) != c.lastVersion {
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

// hasCountries reports whether any network of the file has a country. MaxMind also
// publishes files of other kinds, which contain no countries.
func hasCountries(reader *maxminddb.Reader) bool {
	for network := range reader.Networks() {
		if placeOf(network).country != "" {
			return true
		}
	}
	return false
}

// lookup returns the country and region of an address. Both are empty if the file does
// not contain the address.
func (c *countries) lookup(addr netip.Addr) place {
	if c == nil || !addr.IsValid() {
		return place{}
	}
	file := c.file.Load()
	network := file.Lookup(addr.Unmap())
	if !network.Found() {
		return place{}
	}
	p, cached := file.places.Peek(network.Offset())
	if !cached {
		p = placeOf(network)
		file.places.Add(network.Offset(), p)
	}
	return p
}

// placeOf decodes the record of a network. It ignores values whose length is impossible for an ISO 3166 code.
func placeOf(network maxminddb.Result) place {
	var record struct {
		Country struct {
			Code string `maxminddb:"iso_code"`
		} `maxminddb:"country"`
		Subdivisions []struct {
			Code string `maxminddb:"iso_code"`
		} `maxminddb:"subdivisions"`
	}
	if err := network.Decode(&record); err != nil || len(record.Country.Code) != 2 {
		return place{}
	}
	result := place{country: record.Country.Code}
	if len(record.Subdivisions) > 0 && len(record.Subdivisions[0].Code) <= 3 {
		result.region = record.Subdivisions[0].Code
	}
	return result
}

func versionOf(info fs.FileInfo) fileVersion { return fileVersion{info.ModTime(), info.Size()} }

// withoutPath removes the path of the file from an error. The path is the value of a
// setting, and error messages contain only the names of settings.
func withoutPath(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		return pathErr.Err
	}
	return err
}
