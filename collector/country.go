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

	"github.com/oschwald/maxminddb-golang/v2"
)

const (
	// countryVariable is the setting that names the file.
	countryVariable = "TRIBUTARY_COUNTRY_DB"
	// countryEvery is how often the file is looked at.
	countryEvery = 30 * time.Second
	// rememberPlaces bounds what is remembered of a file; one takes some 60 bytes.
	rememberPlaces = 50_000
)

// countries knows in which country an address is, from a MaxMind file. The file
// is held in memory: one that is mapped and then overwritten where it stands
// would end the process. Nil knows nothing.
type countries struct {
	path string
	log  *slog.Logger
	file atomic.Pointer[countryFile]
	// seen is the file that was read last, or could not be; zero when it was gone.
	seen fileState
}

// countryFile remembers what it has read of its records: to read one takes ten
// times as long as to find it. Networks share records, whole countries do.
type countryFile struct {
	*maxminddb.Reader
	known *bounded[uintptr, place] // by the record's offset
}

// place is a country and, of a file of cities, its first subdivision.
type place struct{ country, region string }

// fileState tells a file from the one that replaced it.
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

// run takes over what replaces the file, until ctx ends.
func (c *countries) run(ctx context.Context) {
	tick := time.NewTicker(countryEvery)
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

// refresh reads the file again when it is another one. One that cannot be used
// is logged once and changes nothing.
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
		c.log.Error("the country file cannot be used, the one before stays", "variable", countryVariable, "error", withoutPath(err))
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
	c.file.Store(&countryFile{reader, newBounded[uintptr, place](rememberPlaces)})
	return nil
}

// hasCountries tells a file of countries or cities from the other kinds, by the
// first network that has one.
func hasCountries(reader *maxminddb.Reader) bool {
	for network := range reader.Networks() {
		if placeOf(network).country != "" {
			return true
		}
	}
	return false
}

// of is where an address is; empty where that is not known.
func (c *countries) of(addr netip.Addr) place {
	if c == nil || !addr.IsValid() {
		return place{}
	}
	file := c.file.Load()
	found := file.Lookup(addr.Unmap())
	if !found.Found() {
		return place{}
	}
	known, ok := file.known.find(found.Offset())
	if !ok {
		known = placeOf(found)
		file.known.add(found.Offset(), known)
	}
	return known
}

// placeOf reads a record. What is no code of ISO 3166 is left out.
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
	read := place{country: record.Country.Code}
	if len(record.Subdivisions) > 0 && len(record.Subdivisions[0].Code) <= 3 {
		read.region = record.Subdivisions[0].Code
	}
	return read
}

func stateOf(info fs.FileInfo) fileState { return fileState{info.ModTime(), info.Size()} }

// withoutPath leaves the value of a setting out of an error.
func withoutPath(err error) error {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err
	}
	return err
}
