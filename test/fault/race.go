//go:build race

package main

// buildFlags makes build use the race detector if this program uses it too. A data race in
// the tested programs is then a violation. RACE_BUILD in the Makefile has the same flags, so
// build can use the packages that were compiled for the tests.
var buildFlags = []string{"-race", "-gcflags=golang.org/x/crypto/argon2=-race=false", "-ldflags=-w"}
