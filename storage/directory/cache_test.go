package directory

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestCache_IsBounded(t *testing.T) {
	c := newCache(time.Now, maxCacheEntries, 0)
	var writers sync.WaitGroup
	for writer := range 8 {
		writers.Go(func() {
			for i := range maxCacheEntries / 6 {
				c.put(strconv.Itoa(writer)+" "+strconv.Itoa(i), nil, 0)
			}
		})
	}
	writers.Wait()
	if n := c.entries.Len(); n != maxCacheEntries {
		t.Errorf("the cache has %d entries, want %d", n, maxCacheEntries)
	}
}

func TestCache_RejectsEntryThatWasReadBeforeDrop(t *testing.T) {
	c := newCache(time.Now, maxCacheEntries, 0)
	before := c.generation()
	c.drop("another")
	if c.put("anna", "old", before); c.entries.Len() != 0 {
		t.Error("an entry that was read before the drop was cached")
	}
	if c.put("anna", "new", c.generation()); c.entries.Len() != 1 {
		t.Error("an entry that was read after the drop was not cached")
	}
}

// A new subscription means that changes may have been missed. The entries are then read
// again, but they are not removed, because Redis may be gone again by then.
func TestCache_ExpiredEntriesAreLastKnownFor24Hours(t *testing.T) {
	now := time.Now()
	c := newCache(func() time.Time { return now }, 10, maxLinkAge)
	c.put("anna", "value", c.generation())
	if c.expireAll(); c.entries.Len() != 1 {
		t.Fatal("expireAll has removed an entry")
	}
	if _, ok := c.get("anna"); ok {
		t.Error("get returns an expired entry")
	}
	now = now.Add(maxLinkAge - time.Second)
	if value, ok := c.lastKnown("anna"); !ok || value != "value" {
		t.Errorf("the last known value after almost 24 hours is %v, want value", value)
	}
	now = now.Add(time.Second)
	if value, ok := c.lastKnown("anna"); ok {
		t.Errorf("the last known value after 24 hours is %v, want none", value)
	}
	if saved, _ := c.save(); len(saved) != 0 || c.entries.Len() != 0 {
		t.Errorf("a copy after 24 hours has %d entries, and the cache %d, want none", len(saved), c.entries.Len())
	}
	c.put("anna", "value", c.generation())
	if c.drop("anna"); c.entries.Len() != 0 {
		t.Error("drop has not removed a changed entry")
	}
}
