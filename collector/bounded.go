package collector

import "sync"

// bounded remembers up to a number of things that were worked out before. When
// it is full, anyone of them goes for the next: map order is random, so a flood
// of made-up keys pushes out mostly its own kind, and what is asked for often is
// soon back.
type bounded[K comparable, V any] struct {
	most int

	mu  sync.RWMutex
	all map[K]V
}

func newBounded[K comparable, V any](most int) *bounded[K, V] {
	return &bounded[K, V]{most: most, all: make(map[K]V)}
}

func (b *bounded[K, V]) find(key K) (V, bool) {
	b.mu.RLock()
	value, ok := b.all[key]
	b.mu.RUnlock()
	return value, ok
}

func (b *bounded[K, V]) add(key K, value V) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, there := b.all[key]; !there && len(b.all) >= b.most {
		for other := range b.all {
			delete(b.all, other)
			break
		}
	}
	b.all[key] = value
}
