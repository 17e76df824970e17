//go:build race

package main

// raceFlag makes build use the race detector if this program uses it too. A data race in
// the tested programs is then a violation.
var raceFlag = []string{"-race"}
