package main

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
)

// skew is the tolerance when the time at which a click was received is compared with the
// times of its request. It is necessary because the stored time is truncated to
// milliseconds.
const skew = 20 * time.Millisecond

// verdict is the result of the comparison of history and tables.
type verdict struct {
	requests, attempts int
	outcomes           [outcomeCount]int
	// acknowledged counts the distinct click ids that were acknowledged, including
	// planted records that Redis acknowledged. The fault poison has appended the planted
	// records to the click stream. planted counts the acknowledged planted records.
	// withoutDirectory counts the clicks that a collector acknowledged although it could
	// not read the edge directory.
	acknowledged, planted, withoutDirectory int
	// rows counts the stored clicks. deadLetters counts the dead letters. withoutResponse
	// counts the rows whose click id was in no response. unique counts the rows that are
	// the first click of a visitor.
	rows, deadLetters, withoutResponse, unique int
	// cacheFlushed reports that unique clicks were not compared because the cache was
	// flushed.
	cacheFlushed bool

	// The following fields contain the violations. Each entry describes one violation.
	missing      []string // acknowledged but not stored
	duplicated   []string // stored more than once
	unexplained  []string // stored without a request
	mismatched   []string // the stored row differs from the request
	bots         []string // the click of a browser was stored as the click of a bot
	uniqueTwice  []string // a second click of a visitor was stored as unique
	deadLettered []string // a valid click is a dead letter
	wrong        []string // the response to a valid click has a status that is never correct
	unknownLinks []string // a collector did not redirect a visitor, although it had read the link before
	renamed      []string // the response has another click id than the request
	cutOff       []string // a graceful stop closed the connection before the response
	counts       []string // the API's click count differs from the rows
}

// violations returns the violations, grouped by kind. The result does not contain kinds
// without violations.
func (v *verdict) violations() []finding {
	return slices.DeleteFunc([]finding{
		{"missing", v.missing},
		{"duplicated", v.duplicated},
		{"unexplained", v.unexplained},
		{"mismatched", v.mismatched},
		{"stored as bots", v.bots},
		{"unique twice", v.uniqueTwice},
		{"dead-lettered", v.deadLettered},
		{"wrong responses", v.wrong},
		{"known links that did not redirect", v.unknownLinks},
		{"renamed", v.renamed},
		{"cut off by a graceful stop", v.cutOff},
		{"counts", v.counts},
	}, func(f finding) bool { return len(f.lines) == 0 })
}

type finding struct {
	name  string
	lines []string
}

func describe(a *attempt) string {
	return fmt.Sprintf("request %d to collector %d at %s, %s after %d ms, status %d %s", a.Request, a.Collector,
		time.UnixMilli(a.Start).UTC().Format("15:04:05.000"), outcomeNames[a.Outcome], a.End-a.Start, a.Status, a.Error)
}

// sortedKeys returns the keys of all maps in sorted order, so that equal histories lead
// to equal verdicts.
func sortedKeys[V any](sets ...map[uuid.UUID]V) []uuid.UUID {
	all := make(map[uuid.UUID]bool)
	for _, m := range sets {
		for id := range m {
			all[id] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b uuid.UUID) int { return slices.Compare(a[:], b[:]) })
}
