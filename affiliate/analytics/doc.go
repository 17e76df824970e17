// Package analytics contains the rules of the analytics (docs/merchant/analytics.md):
// what a click and a conversion add to which sums, which values of a dimension are counted
// separately, into which intervals a period is divided, and which metrics follow from the sums.
//
// A sum belongs to a UTC day and to one value of a dimension. It contains the numbers of
// each quarter of an hour of the day, because days begin at a quarter of an hour in all time
// zones. Every sum exists twice: once for the participant and the link, and once for the whole
// programme.
//
// The package does not store anything and does not read a clock.
package analytics
