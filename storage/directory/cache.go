package directory

import (
	"sync"
	"time"
)

// cache remembers answers, absent ones (nil) too.
type cache struct {
	now func() time.Time

	mu      sync.RWMutex
	entries map[string]cacheEntry
	// changes counts drops: an answer that was fetched before one may be stale.
	changes uint64
}

type cacheEntry struct {
	value   any
	expires time.Time
}

func newCache(now func() time.Time) *cache {
	return &cache{now: now, entries: make(map[string]cacheEntry)}
}

// get takes the key as bytes: the compiler looks into the map without making
// them a string.
func (c *cache) get(key []byte) (value any, ok bool) {
	c.mu.RLock()
	entry, ok := c.entries[string(key)]
	c.mu.RUnlock()
	if !ok || !c.now().Before(entry.expires) {
		return nil, false
	}
	return entry.value, true
}

func (c *cache) generation() uint64 {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.changes
}

// put remembers value unless something was dropped since generation.
func (c *cache) put(key string, value any, generation uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.changes != generation {
		return
	}
	if _, there := c.entries[key]; !there && len(c.entries) >= cacheEntries {
		c.makeRoom()
	}
	c.entries[key] = cacheEntry{value: value, expires: c.now().Add(cacheFor)}
}

// makeRoom drops what has expired among a few entries, or else the first of
// them: map order is random, so a flood of unknown keys pushes out mostly its
// own kind.
func (c *cache) makeRoom() {
	const sample = 64
	now, looked, dropped := c.now(), 0, 0
	var first string
	for key, entry := range c.entries {
		if looked == 0 {
			first = key
		}
		if !now.Before(entry.expires) {
			delete(c.entries, key)
			dropped++
		}
		if looked++; looked == sample {
			break
		}
	}
	if dropped == 0 {
		delete(c.entries, first)
	}
}

func (c *cache) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	delete(c.entries, key)
}

func (c *cache) dropAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	clear(c.entries)
}
