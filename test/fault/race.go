//go:build race

package main

// raceFlag builds the programs under test as this one is built: what the race
// detector finds in them is a violation, and their packages are compiled already.
var raceFlag = []string{"-race"}
