package directory

import (
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// cacheFor bounds how long a change can stay unseen when its message is lost.
	cacheFor = 30 * time.Second
	// cacheEntries bounds the cache. An entry takes about 400 bytes.
	cacheEntries = 50_000
)

// cache holds entries that were found and can be used, for at most cacheFor. If it is
// full, it evicts the oldest entry, which expires first. Reads use Peek, which leaves that
// order alone and needs no exclusive lock.
type cache struct {
	now func() time.Time

	mu      sync.RWMutex
	entries *simplelru.LRU[string, cacheEntry]
	// drops counts calls of drop and dropAll: an entry that was read before a drop
	// may be older than the change that caused it.
	drops uint64
}

type cacheEntry struct {
	value   any
	expires time.Time
}

func newCache(now func() time.Time) *cache {
	entries, _ := simplelru.NewLRU[string, cacheEntry](cacheEntries, nil) // fails only without a size
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

// generation returns the number of drops so far, for put.
func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.drops
}

// put stores value unless something was dropped since generation was taken.
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
