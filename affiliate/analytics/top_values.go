package analytics

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
	"strings"
)

// MaxValues is the number of values of a dimension that are counted separately in a UTC day, for each
// workspace and mode. All other values of the day are added up as OtherValues.
const MaxValues = 1000

// The weights of clicks and conversions. Anyone can send clicks with any values, but only
// the merchant and its payment processor report conversions.
const (
	clickWeight      = 1
	conversionWeight = 1000
)

// Weights holds the weight of each value of a dimension on a day.
type Weights map[DayValues]map[string]int64

func (w Weights) add(day Day, values []string, weight int64) {
	for i, value := range values {
		if value == "" {
			continue
		}
		key := DayValues{dimensions[i], day}
		if w[key] == nil {
			w[key] = map[string]int64{}
		}
		w[key][value] += weight
	}
}

// AddConversion adds the weight of a conversion to each of its values that differs from the value
// in before, the conversion before a change. before is nil if the conversion is new.
func (w Weights) AddConversion(c, before *Conversion) {
	values, day := c.Values, DayOf(c.OccurredAt)
	if before != nil && DayOf(before.OccurredAt) == day {
		for i := range values {
			if values[i] == before.Values[i] {
				values[i] = ""
			}
		}
	}
	w.add(day, values[:], conversionWeight)
}

// AddAll adds other weights.
func (w Weights) AddAll(other Weights) {
	for key, values := range other {
		if w[key] == nil {
			w[key] = map[string]int64{}
		}
		for value, weight := range values {
			w[key][value] += weight
		}
	}
}

// KeepOnly deletes the weights of values that have no sum.
func (w Weights) KeepOnly(sums Sums) {
	found := map[DayValues]map[string]bool{}
	for key := range sums {
		of := DayValues{key.Dimension, key.Day}
		if found[of] == nil {
			found[of] = map[string]bool{}
		}
		found[of][key.Value] = true
	}
	for of, values := range w {
		maps.DeleteFunc(values, func(value string, _ int64) bool { return !found[of][value] })
	}
}

// Selection says which values of the dimensions and days are counted separately.
type Selection struct {
	weights  Weights
	Changed  Weights                // new weights of kept values whose weight has changed
	Replaced map[DayValues][]string // values that are no longer kept
}

// SelectValues selects the values that are counted separately after clicks and conversions with the
// given weights were added. kept has all values that are kept so far; SelectValues changes it.
//
// It uses the space-saving algorithm (Metwally, Agrawal, El Abbadi: Efficient Computation of
// Frequent and Top-k Elements in Data Streams, 2005). If all places are taken, a new value
// replaces the value with the lowest weight and inherits its weight. A value with more than
// a thousandth of the weight of its day is therefore always kept, regardless of the number of
// other values.
func SelectValues(kept, added Weights) Selection {
	s := Selection{weights: kept, Changed: Weights{}, Replaced: map[DayValues][]string{}}
	for key, values := range added {
		if len(values) == 0 {
			continue
		}
		if kept[key] == nil {
			kept[key] = map[string]int64{}
		}
		before := maps.Clone(kept[key])
		addValues(kept[key], values)
		changed := map[string]int64{}
		for value, weight := range kept[key] {
			if previous, ok := before[value]; !ok || previous != weight {
				changed[value] = weight
			}
		}
		s.Changed[key] = changed
		for value := range before {
			if _, ok := kept[key][value]; !ok {
				s.Replaced[key] = append(s.Replaced[key], value)
			}
		}
	}
	return s
}

// Kept reports whether a value is counted separately.
func (s Selection) Kept(dimension Dimension, day Day, value string) bool {
	_, ok := s.weights[DayValues{dimension, day}][value]
	return ok
}

// addValues adds the weights of values to those that are kept.
func addValues(kept, added map[string]int64) {
	var unknown []string
	for value, weight := range added {
		if _, ok := kept[value]; ok {
			kept[value] += weight
		} else {
			unknown = append(unknown, value)
		}
	}
	slices.SortFunc(unknown, func(a, b string) int { return cmp.Or(cmp.Compare(added[b], added[a]), strings.Compare(a, b)) })
	free := min(max(MaxValues-len(kept), 0), len(unknown))
	for _, value := range unknown[:free] {
		kept[value] = added[value]
	}
	if free == len(unknown) {
		return
	}
	h := &weightedHeap{values: slices.Sorted(maps.Keys(kept)), weights: kept}
	heap.Init(h)
	for _, value := range unknown[free:] {
		lowest := h.values[0]
		kept[value] = kept[lowest] + added[value]
		delete(kept, lowest)
		h.values[0] = value
		heap.Fix(h, 0)
	}
}

// weightedHeap implements heap.Interface. The value with the lowest weight is the first.
type weightedHeap struct {
	values  []string
	weights map[string]int64
}

func (h *weightedHeap) Len() int           { return len(h.values) }
func (h *weightedHeap) Less(i, j int) bool { return h.weights[h.values[i]] < h.weights[h.values[j]] }
func (h *weightedHeap) Swap(i, j int)      { h.values[i], h.values[j] = h.values[j], h.values[i] }
func (h *weightedHeap) Push(any)           { panic("analytics: the number of values is fixed") }
func (h *weightedHeap) Pop() any           { panic("analytics: the number of values is fixed") }
