package main

import "math"

const (
	// limit is the highest accepted ratio of the CPU time after to the CPU time before.
	limit = 1.10
	// minRounds is the minimum number of pairs for a verdict.
	minRounds = 15
	// normalQuantile is the 97.5 % quantile of the normal distribution.
	normalQuantile = 1.959963985
)

// estimate is the ratio of the CPU times after to the CPU times before, with its 95 %
// interval.
type estimate struct {
	pairs            int
	ratio, low, high float64
}

// pairedRatio estimates the ratio of after to before from pairs of rounds. It calculates
// the mean of the logarithms of the ratios and the t interval of this mean. With
// logarithms, a ratio of 2 and a ratio of 1/2 cancel each other. Pairs in which a value
// is missing are ignored.
func pairedRatio(before, after []float64) estimate {
	var logs []float64
	for i := range min(len(before), len(after)) {
		if before[i] > 0 && after[i] > 0 {
			logs = append(logs, math.Log(after[i]/before[i]))
		}
	}
	n := float64(len(logs))
	if n < 2 {
		return estimate{pairs: len(logs), ratio: math.NaN(), low: math.NaN(), high: math.NaN()}
	}
	var sum, squares float64
	for _, l := range logs {
		sum += l
	}
	mean := sum / n
	for _, l := range logs {
		squares += (l - mean) * (l - mean)
	}
	half := tQuantile(n-1) * math.Sqrt(squares/(n-1)/n)
	return estimate{pairs: len(logs), ratio: math.Exp(mean), low: math.Exp(mean - half), high: math.Exp(mean + half)}
}

// tQuantile returns the 97.5 % quantile of Student's t distribution. It uses an expansion
// (Abramowitz and Stegun 26.7.5) that is exact to three decimals for at least 5 degrees
// of freedom. For fewer degrees of freedom the result is too small, but then there is no
// verdict.
func tQuantile(freedom float64) float64 {
	z2 := normalQuantile * normalQuantile
	g1 := normalQuantile * (z2 + 1) / 4
	g2 := normalQuantile * ((5*z2+16)*z2 + 3) / 96
	g3 := normalQuantile * (((3*z2+19)*z2+17)*z2 - 15) / 384
	g4 := normalQuantile * ((((79*z2+776)*z2+1482)*z2-1920)*z2 - 945) / 92160
	return normalQuantile + (g1+(g2+(g3+g4/freedom)/freedom)/freedom)/freedom
}

// These constants are the verdicts on a row.
const (
	within      = "within the limit"
	worse       = "WORSE"
	undecided   = "undecided"
	tooFew      = "too few rounds"
	notCompared = "not compared"
	noCPUTime   = "no CPU time"
)

// verdict returns the verdict on a row. A row is worse only if the whole interval is
// above the limit.
func (e estimate) verdict() string {
	switch {
	case e.pairs == 0:
		return noCPUTime
	case e.pairs < minRounds:
		return tooFew
	case e.low > limit:
		return worse
	case e.high > limit:
		return undecided
	}
	return within
}
