package directory

import (
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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

// A request must not receive the result of a read that started before the request.
func TestLookups_ShareOnlyReadsThatStartLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookups()
		var reads atomic.Int64
		request := func(release <-chan struct{}, results chan<- int64) {
			value, state := l.do("anna", func() (any, State) {
				n := reads.Add(1)
				<-release
				return n, Found
			})
			if state != Found {
				t.Errorf("do returned the state %v, want Found", state)
			}
			results <- value.(int64)
		}
		releaseFirst, releaseSecond := make(chan struct{}), make(chan struct{})
		before, during, late := make(chan int64, 1), make(chan int64, 5), make(chan int64, 1)
		go request(releaseFirst, before)
		synctest.Wait() // the first read has started
		for range 5 {
			go request(releaseSecond, during)
		}
		synctest.Wait()
		if reads.Load() != 1 {
			t.Fatalf("%d reads run at the same time, want 1", reads.Load())
		}
		close(releaseFirst)
		if got := <-before; got != 1 {
			t.Errorf("the first request received the result of read %d, want 1", got)
		}
		synctest.Wait() // the second read has started
		go request(releaseSecond, late)
		synctest.Wait()
		close(releaseSecond)
		for range 5 {
			if got := <-during; got != 2 {
				t.Errorf("a request that arrived during the first read received the result of read %d, want 2", got)
			}
		}
		if got := <-late; got != 3 || reads.Load() != 3 {
			t.Errorf("a request that arrived during the second read received the result of read %d of %d, want 3 of 3", got, reads.Load())
		}
		synctest.Wait()
		if len(l.last) != 0 {
			t.Errorf("%d finished reads are still stored, want 0", len(l.last))
		}
	})
}

// If a read fails, all requests that wait for it must fail without another read.
// Otherwise a request could wait for more than one timeout.
func TestLookups_FailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookups()
		var reads atomic.Int64
		release := make(chan struct{})
		var requests sync.WaitGroup
		for range 10 {
			requests.Go(func() {
				_, state := l.do("anna", func() (any, State) {
					reads.Add(1)
					<-release
					return nil, Unknown
				})
				if state != Unknown {
					t.Errorf("do returned the state %v, want Unknown", state)
				}
			})
			synctest.Wait()
		}
		close(release)
		requests.Wait()
		if reads.Load() != 1 {
			t.Errorf("%d reads were made, want 1", reads.Load())
		}
	})
}
