package directory

import (
	"strconv"
	"sync"
	"testing"
	"time"
)

func TestCacheIsBounded(t *testing.T) {
	c := newCache(time.Now)
	var askers sync.WaitGroup
	for asker := range 8 {
		askers.Go(func() {
			for i := range cacheEntries / 6 {
				c.put(strconv.Itoa(asker)+" "+strconv.Itoa(i), nil, 0)
			}
		})
	}
	askers.Wait()
	if n := len(c.entries); n > cacheEntries || n < cacheEntries*4/5 {
		t.Errorf("%d entries", n)
	}
}
