package directory

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxCacheAge is the maximum age of a cache entry. If a Reader does not receive the
	// message about a change, it uses the old entry for at most this time.
	maxCacheAge = 30 * time.Second
	// maxCacheEntries is the maximum number of entries. An entry takes about 400 bytes.
	maxCacheEntries = 50_000
)

// cache stores usable entries (active codes, active links and keys that are not revoked)
// for at most maxCacheAge. If the cache is full, it evicts the oldest entry. All entries
// have the same maximum age, so the oldest entry is also the first to expire. Reads use
// Peek, which does not change the order of the entries and therefore needs no exclusive
// lock.
type cache struct {
	now func() time.Time

	mu      sync.RWMutex
	entries *simplelru.LRU[string, cacheEntry]
	// drops counts the calls of drop and dropAll. put does not store an entry if the
	// counter has changed since the entry was read, because the entry may be older than
	// the change that caused the drop.
	drops uint64
}

type cacheEntry struct {
	value   any
	expires time.Time
}

func newCache(now func() time.Time) *cache {
	entries, _ := simplelru.NewLRU[string, cacheEntry](maxCacheEntries, nil) // fails only if the size is not positive
	return &cache{now: now, entries: entries}
}

func (c *cache) get(key string) (value any, ok bool) {
	c.mu.RLock()
	entry, ok := c.entries.Peek(key)
	c.mu.RUnlock()
	if !ok || !c.now().Before(entry.expires) {
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

// put stores a value, unless drop or dropAll was called after generation.
func (c *cache) put(key string, value any, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == generation {
		c.entries.Add(key, cacheEntry{value: value, expires: c.now().Add(maxCacheAge)})
	}
}

func (c *cache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.entries.Remove(key)
}

func (c *cache) dropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drops++
	c.entries.Purge()
}
