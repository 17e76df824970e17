package directory

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"google.golang.org/protobuf/proto"

	edgev1 "github.com/tributary-hq/tributary/gen/edge/v1"
)

const (
	// maxCacheAge is the maximum age of a cache entry. If a Reader does not receive the
	// message about a change, it uses the old entry for at most this time.
	maxCacheAge = 30 * time.Second
	// maxCacheEntries is the maximum number of keys and codes in the cache, and
	// maxCacheLinks the maximum number of links. An entry takes about 400 bytes, a link
	// about 600.
	maxCacheEntries = 50_000
	maxCacheLinks   = 20_000
	// maxLinkAge is the maximum age of a link that is used while Redis cannot be read. If a link is
	// deactivated or erased while Redis cannot be read, it leads to its target until this age.
	maxLinkAge = 24 * time.Hour
)

// cache stores usable entries (active codes, active links and keys that are not revoked).
// get returns an entry for at most maxCacheAge, lastKnown for at most maxAge. If the cache
// is full, it evicts the oldest entry. Reads use Peek, which does not change the order of
// the entries and therefore needs no exclusive lock.
type cache struct {
	now    func() time.Time
	maxAge time.Duration

	mu      sync.RWMutex
	entries *simplelru.LRU[string, cacheEntry] // in the order in which they were read
	// drops counts the calls of drop and expireAll. put does not store an entry if the
	// counter has changed since the entry was read, because the entry may be older than
	// the change that caused the drop.
	drops uint64
	// current is the number of calls of expireAll plus 1. get returns only entries with
	// this number.
	current uint64
	// changes counts the changes of entries.
	changes uint64
}

type cacheEntry struct {
	value  any
	read   time.Time
	number uint64 // cache.current when the entry was read; 0 if it was restored
}

// newCache returns a cache of size entries. If maxAge is 0, lastKnown finds nothing.
func newCache(now func() time.Time, size int, maxAge time.Duration) *cache {
	entries, _ := simplelru.NewLRU[string, cacheEntry](size, nil) // fails only if the size is not positive
	return &cache{now: now, maxAge: maxAge, entries: entries, current: 1}
}

func (c *cache) get(key string) (value any, ok bool) {
	c.mu.RLock()
	entry, ok := c.entries.Peek(key)
	current := c.current
	c.mu.RUnlock()
	if !ok || entry.number != current || c.now().Sub(entry.read) >= maxCacheAge {
		return nil, false
	}
	return entry.value, true
}

// lastKnown returns an entry that is not older than maxAge.
func (c *cache) lastKnown(key string) (value any, ok bool) {
	c.mu.RLock()
	entry, ok := c.entries.Peek(key)
	c.mu.RUnlock()
	if !ok || c.now().Sub(entry.read) >= c.maxAge {
		return nil, false
	}
	return entry.value, true
}

// generation returns the current value of drops. The caller must call it before it reads
// an entry from Redis, and pass the value to put.
func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.drops
}

// put stores a value, unless drop or expireAll was called since generation returned the given
// number. It reports whether it has stored the value.
func (c *cache) put(key string, value any, generation uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops != generation {
		return false
	}
	c.entries.Add(key, cacheEntry{value: value, read: c.now(), number: c.current})
	c.changes++
	return true
}

// drop removes an entry that has changed. It reports whether the cache had the entry.
func (c *cache) drop(key string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	return c.removeLocked(key)
}

// remove removes an entry that is missing in Redis or is no longer usable.
func (c *cache) remove(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removeLocked(key)
}

func (c *cache) removeLocked(key string) bool {
	removed := c.entries.Remove(key)
	if removed {
		c.changes++
	}
	return removed
}

func (c *cache) expireAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.current++
}

type savedEntry struct {
	key   string
	value any
	read  time.Time
}

// save returns a copy of the cache, newest entry first, and the number of its changes. It
// removes the entries that are older than maxAge.
func (c *cache) save() (entries []savedEntry, changes uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		_, oldest, ok := c.entries.GetOldest()
		if !ok || c.now().Sub(oldest.read) < c.maxAge {
			break
		}
		c.entries.RemoveOldest()
		c.changes++
	}
	for _, key := range slices.Backward(c.entries.Keys()) {
		entry, _ := c.entries.Peek(key)
		entries = append(entries, savedEntry{key, entry.value, entry.read})
	}
	return entries, c.changes
}

// restore adds the entries of a copy. get does not return them. Entries that are too old, or
// that were read at a time in the future, are not added.
func (c *cache) restore(entries []savedEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, entry := range slices.Backward(entries) {
		if age := c.now().Sub(entry.read); age >= 0 && age < c.maxAge {
			c.entries.Add(entry.key, cacheEntry{value: entry.value, read: entry.read})
		}
	}
}

const (
	// saveInterval is the time between two writes of the file with the links.
	saveInterval = time.Minute
	// maxLinkFile is the maximum size of the file in bytes. If the links need more, the
	// oldest ones are left out.
	maxLinkFile = 16 << 20
)

// fileLink is a line of the file with the links, in JSON. The newest link is in the first
// line.
type fileLink struct {
	Key string `json:"key"`
	// Read is the time at which the entry was read from Redis.
	Read time.Time `json:"read"`
	// Entry is a marshalled edge.v1.LinkEntry.
	Entry []byte `json:"entry"`
}

// SaveLinks writes the last known links to a file every minute and when ctx ends, if they
// have changed. Another process must not use the same path.
func (r *Reader) SaveLinks(ctx context.Context, path string, log *slog.Logger) {
	ticker := time.NewTicker(saveInterval)
	defer ticker.Stop()
	var saved uint64 // the number of changes that the file contains
	failed := false
	for last := false; !last; {
		select {
		case <-ctx.Done():
			last = true
		case <-ticker.C:
		}
		links, changes := r.links.save()
		if changes == saved {
			continue
		}
		err := writeLinks(path, links)
		if err != nil && !failed {
			log.LogAttrs(ctx, slog.LevelWarn, "the copy of the short links cannot be written", slog.Any("error", err))
		}
		if failed = err != nil; !failed {
			saved = changes
		}
	}
}

// writeLinks replaces the file. A crash leaves the old or the new file.
func writeLinks(path string, links []savedEntry) error {
	var content bytes.Buffer
	for _, link := range links {
		entry, err := proto.Marshal(link.value.(*edgev1.LinkEntry))
		if err != nil {
			return err
		}
		line, err := json.Marshal(fileLink{link.key, link.read, entry})
		if err != nil {
			return err
		}
		if content.Len()+len(line) >= maxLinkFile {
			break
		}
		content.Write(append(line, '\n'))
	}
	temporary := path + ".tmp"
	if err := writeFile(temporary, content.Bytes()); err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return os.Rename(temporary, path)
}

func writeFile(path string, content []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return errors.Join(err, file.Sync(), file.Close())
}

// LoadLinks reads the file that SaveLinks of an earlier process has written. The links are
// used only while Redis cannot be read. It is no error if the file does not exist.
func (r *Reader) LoadLinks(path string) error {
	file, err := os.Open(path) // #nosec G304 -- a path from the settings
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var links []savedEntry
	decoder := json.NewDecoder(io.LimitReader(file, maxLinkFile))
	for {
		var line fileLink
		if err := decoder.Decode(&line); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("line %d of %s: %w", len(links)+1, path, err)
		}
		entry := &edgev1.LinkEntry{}
		if err := proto.Unmarshal(line.Entry, entry); err != nil {
			return fmt.Errorf("line %d of %s: %w", len(links)+1, path, err)
		}
		links = append(links, savedEntry{line.Key, entry, line.Read})
	}
	r.links.restore(links)
	return nil
}
