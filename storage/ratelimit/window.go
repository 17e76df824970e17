package ratelimit

// window is a row of one-second buckets in memory, like the shared one. Not safe for
// concurrent use.
type window struct {
	span    int64
	buckets []bucket // by second, ascending
	total   int64
}

type bucket struct{ second, count int64 }

// forget removes buckets that have left the row at second now.
func (w *window) forget(now int64) {
	gone := 0
	for gone < len(w.buckets) && w.buckets[gone].second <= now-w.span {
		w.total -= w.buckets[gone].count
		gone++
	}
	if gone > 0 {
		w.buckets = append(w.buckets[:0], w.buckets[gone:]...)
	}
}

func (w *window) add(second, count int64) {
	w.total += count
	// Search from the end: only a clock that was set back adds an earlier second.
	i := len(w.buckets)
	for i > 0 && w.buckets[i-1].second > second {
		i--
	}
	if i > 0 && w.buckets[i-1].second == second {
		w.buckets[i-1].count += count
		return
	}
	w.buckets = append(w.buckets, bucket{})
	copy(w.buckets[i+1:], w.buckets[i:])
	w.buckets[i] = bucket{second, count}
}

// freeIn returns the ms from nowMs until one more fits under limit.
func (w *window) freeIn(nowMs, limit int64) int64 {
	excess := w.total - limit + 1
	for _, b := range w.buckets {
		if excess -= b.count; excess <= 0 {
			return (b.second+w.span)*1000 - nowMs
		}
	}
	return w.span * 1000
}

// emptyIn returns the ms from nowMs until the row is empty.
func (w *window) emptyIn(nowMs int64) int64 {
	if len(w.buckets) == 0 {
		return 0
	}
	return (w.buckets[len(w.buckets)-1].second+w.span)*1000 - nowMs
}
