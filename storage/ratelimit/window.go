package ratelimit

// window counts requests in one-second buckets, in memory. It is not safe for concurrent
// use.
type window struct {
	span    int64    // number of seconds
	buckets []bucket // by second, ascending
	total   int64
}

type bucket struct{ second, count int64 }

// removeOld removes the buckets that are no longer in the window at nowSecond.
func (w *window) removeOld(nowSecond int64) {
	old := 0
	for old < len(w.buckets) && w.buckets[old].second <= nowSecond-w.span {
		w.total -= w.buckets[old].count
		old++
	}
	if old > 0 {
		w.buckets = append(w.buckets[:0], w.buckets[old:]...)
	}
}

func (w *window) add(second, count int64) {
	w.total += count
	// Search from the end, because most requests belong to the last second. An earlier
	// second occurs only if the clock was set back.
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

// freeIn returns the time in ms from nowMs until the window allows one more request.
func (w *window) freeIn(nowMs, limit int64) int64 {
	excess := w.total - limit + 1
	for _, b := range w.buckets {
		if excess -= b.count; excess <= 0 {
			return (b.second+w.span)*1000 - nowMs
		}
	}
	return w.span * 1000
}

// emptyIn returns the time in ms from nowMs until the window is empty.
func (w *window) emptyIn(nowMs int64) int64 {
	if len(w.buckets) == 0 {
		return 0
	}
	return (w.buckets[len(w.buckets)-1].second+w.span)*1000 - nowMs
}
