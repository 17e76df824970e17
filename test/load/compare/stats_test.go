package main

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestTQuantile(t *testing.T) {
	// The values are from tables of the distribution.
	for freedom, want := range map[float64]float64{5: 2.571, 9: 2.262, 14: 2.145, 19: 2.093, 29: 2.045, 99: 1.984, 1e9: 1.960} {
		if got := tQuantile(freedom); math.Abs(got-want) > 0.001 {
			t.Errorf("tQuantile(%v) = %v, want %v", freedom, got, want)
		}
	}
}

func TestPairedRatio(t *testing.T) {
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-4 }
	// The logarithms of the ratios are 0, ln 1.21 and ln 1.1. Their mean is ln 1.1, and
	// its standard error is ln 1.1 / √3.
	got := pairedRatio([]float64{100, 100, 100}, []float64{100, 121, 110})
	half := tQuantile(2) * math.Log(1.1) / math.Sqrt(3)
	if got.pairs != 3 || !near(got.ratio, 1.1) || !near(got.low, 1.1*math.Exp(-half)) || !near(got.high, 1.1*math.Exp(half)) {
		t.Errorf("pairedRatio = %+v, want 3 pairs, the ratio 1.1 and the interval 1.1 · exp(±%v)", got, half)
	}
	// A change of the speed of the machine affects both sides of a pair, so it has no
	// effect on the ratio. Here the requests of both sides take more and more time, in
	// the end three times as much.
	var before, after []float64
	for i := range 20 {
		slowdown := 1 + float64(i)/10
		before, after = append(before, 50*slowdown), append(after, 60*slowdown)
	}
	if got := pairedRatio(before, after); !near(got.ratio, 1.2) || !near(got.low, 1.2) || !near(got.high, 1.2) {
		t.Errorf("pairedRatio of a machine that slows down = %+v, want 1.2 without an interval", got)
	}
	// Pairs in which a value is missing are ignored.
	if got := pairedRatio([]float64{0, 10, 10, 10, 7}, []float64{5, 0, 20, 20}); got.pairs != 2 || !near(got.ratio, 2) {
		t.Errorf("pairedRatio with missing values = %+v, want 2 pairs and the ratio 2", got)
	}
	if got := pairedRatio(nil, []float64{1}); got.pairs != 0 || got.verdict() != noCPUTime {
		t.Errorf("pairedRatio without pairs = %+v with the verdict %v, want %v", got, got.verdict(), noCPUTime)
	}
}

// The 95 % interval must contain the true ratio in about 95 of 100 runs.
func TestPairedRatio_IntervalContainsTrueRatio(t *testing.T) {
	const runs, truth = 4000, 1.07
	random := rand.New(rand.NewPCG(1, 2))
	covered := 0
	for range runs {
		before, after := make([]float64, minRounds), make([]float64, minRounds)
		for i := range minRounds {
			machine := math.Exp(random.NormFloat64() * 0.2)
			before[i] = machine * math.Exp(random.NormFloat64()*0.05)
			after[i] = machine * truth * math.Exp(random.NormFloat64()*0.05)
		}
		if e := pairedRatio(before, after); e.low <= truth && truth <= e.high {
			covered++
		}
	}
	if share := float64(covered) / runs; share < 0.94 || share > 0.96 {
		t.Errorf("the interval contains the true ratio in %.3f of the runs, want 0.94 to 0.96", share)
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		estimate estimate
		want     string
	}{
		{estimate{pairs: 15, ratio: 1.05, low: 1.01, high: 1.09}, within},
		{estimate{pairs: 15, ratio: 0.7, low: 0.6, high: 0.8}, within},
		{estimate{pairs: 15, ratio: 1.2, low: 1.09, high: 1.3}, undecided},
		{estimate{pairs: 15, ratio: 1.2, low: 1.11, high: 1.3}, worse},
		{estimate{pairs: 14, ratio: 1.2, low: 1.11, high: 1.3}, tooFew},
		{estimate{}, noCPUTime},
	} {
		if got := test.estimate.verdict(); got != test.want {
			t.Errorf("verdict of %+v = %s, want %s", test.estimate, got, test.want)
		}
	}
}
