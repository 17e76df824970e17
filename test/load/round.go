package main

import (
	"context"
	"slices"
	"time"
)

// sample is the result of one round of one side, see side.
type sample struct {
	// rate is requests, rows or transactions per second.
	rate float64
	// cpu is the CPU time of the server process per request. redis is the CPU time of the
	// server's Redis per request. They are 0 if they are not measured.
	cpu, redis time.Duration
	// roundCPU is the CPU time of all processes of the service in the round.
	roundCPU time.Duration
	// p50 and p99 are quantiles of the requests' latencies.
	p50, p99 time.Duration
	// memory and log are the bytes per click in Redis's memory and in its log.
	memory, log float64
	// start is the time from the start of a server to its first response. idle is its
	// memory in bytes after the start. busy is its memory with many open connections.
	start      time.Duration
	idle, busy float64
}

// side runs one round of one of the systems that a row compares, and returns its
// measurements. These systems are the service and its yardsticks: programs
// that show what is possible on the machine.
type side func(context.Context) (sample, error)

// takeTurns runs each side once per round. It returns the samples by side and round. The
// sides take turns to be the first in a round.
func (b *bench) takeTurns(ctx context.Context, label string, sides ...side) ([][]sample, error) {
	samples := make([][]sample, len(sides))
	for i := range samples {
		samples[i] = make([]sample, b.rounds)
	}
	for round := range b.rounds {
		if err := b.turns.wait(label, round); err != nil {
			return nil, err
		}
		b.say("%s: round %d of %d", label, round+1, b.rounds)
		for turn := range sides {
			i := (round + turn) % len(sides)
			got, err := measureSide(ctx, sides[i])
			if err != nil {
				return nil, err
			}
			samples[i][round] = got
		}
	}
	b.turns.keep(label, samples)
	return samples, nil
}

func rate(s sample) float64         { return s.rate }
func cpu(s sample) float64          { return float64(s.cpu) }
func roundCPU(s sample) float64     { return float64(s.roundCPU) }
func redisCPU(s sample) float64     { return float64(s.redis) }
func p50(s sample) float64          { return float64(s.p50) }
func p99(s sample) float64          { return float64(s.p99) }
func redisMemory(s sample) float64  { return s.memory }
func redisWritten(s sample) float64 { return s.log }
func startTime(s sample) float64    { return float64(s.start) }
func idleMemory(s sample) float64   { return s.idle }
func busyMemory(s sample) float64   { return s.busy }

func each(samples []sample, value func(sample) float64) []float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = value(s)
	}
	return values
}

// ratios returns, for each round, the service's value divided by the yardstick's value.
func ratios(ours, yardstick []sample, value func(sample) float64) []float64 {
	values := make([]float64, len(ours))
	for i := range ours {
		values[i] = value(ours[i]) / value(yardstick[i])
	}
	return values
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// quantile returns a quantile of sorted latencies.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
