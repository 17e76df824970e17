package ratelimit

// window counts requests in buckets of equal length, in memory. The number of a bucket is
// its start divided by the length. It is not safe for concurrent use.
type window struct {
	span     int64    // number of buckets
	bucketMs int64    // length of a bucket in ms
	buckets  []bucket // by number, ascending
	total    int64
}

type bucket struct{ number, count int64 }

// removeOld removes the buckets that are no longer in the window at nowMs.
func (w *window) removeOld(nowMs int64) {
	current, old := nowMs/w.bucketMs, 0
	for old < len(w.buckets) && w.buckets[old].number <= current-w.span {
		w.total -= w.buckets[old].count
		old++
	}
	if old > 0 {
		w.buckets = append(w.buckets[:0], w.buckets[old:]...)
	}
}

// add counts requests in the bucket that contains the time atMs.
func (w *window) add(atMs, count int64) {
	number := atMs / w.bucketMs
	w.total += count
	// Search from the end, because most requests belong to the last bucket. An earlier
	// bucket occurs only if the clock was set back.
	i := len(w.buckets)
	for i > 0 && w.buckets[i-1].number > number {
		i--
	}
	if i > 0 && w.buckets[i-1].number == number {
		w.buckets[i-1].count += count
		return
	}
	w.buckets = append(w.buckets, bucket{})
	copy(w.buckets[i+1:], w.buckets[i:])
	w.buckets[i] = bucket{number, count}
}

// freeIn returns the time in ms from nowMs until the window allows one more request.
func (w *window) freeIn(nowMs, limit int64) int64 {
	excess := w.total - limit + 1
	for _, b := range w.buckets {
		if excess -= b.count; excess <= 0 {
			return (b.number+w.span)*w.bucketMs - nowMs
		}
	}
	return w.span * w.bucketMs
}

// emptyIn returns the time in ms from nowMs until the window is empty.
func (w *window) emptyIn(nowMs int64) int64 {
	if len(w.buckets) == 0 {
		return 0
	}
	return (w.buckets[len(w.buckets)-1].number+w.span)*w.bucketMs - nowMs
}
