package directory

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// cacheFor is the maximum age of a cache entry. A Reader that has not received the
	// message about a change uses the old entry for this long at most.
	cacheFor = 30 * time.Second
	// cacheEntries is the maximum number of entries. An entry takes about 400 bytes.
	cacheEntries = 50_000
)

// cache stores usable entries for at most cacheFor. If it is full, it evicts the oldest
// entry, which is also the first to expire. Reads use Peek, which does not change the
// order of the entries and therefore needs no exclusive lock.
type cache struct {
	now func() time.Time

	mu      sync.RWMutex
	entries *simplelru.LRU[string, cacheEntry]
	// drops counts the calls of drop and dropAll. put compares it, because an entry that
	// was read before a drop may be older than the change that caused the drop.
	drops uint64
}

type cacheEntry struct {
	value   any
	expires time.Time
}

func newCache(now func() time.Time) *cache {
	entries, _ := simplelru.NewLRU[string, cacheEntry](cacheEntries, nil) // fails only if the size is not positive
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

// generation returns the present number of drops. The caller passes it to put.
func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.drops
}

// put stores a value unless an entry was dropped after the call of generation.
func (c *cache) put(key string, value any, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == generation {
		c.entries.Add(key, cacheEntry{value: value, expires: c.now().Add(cacheFor)})
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
