// Package analytics contains the rules of the analytics (docs/merchant/analytics.md): the sums
// to which a click and a conversion are added, the values of a dimension that are counted
// separately, the intervals of a period, and the metrics that are computed from the sums.
//
// A sum belongs to a UTC day and to one value of a dimension. It contains the numbers of each
// quarter of an hour of the day, because days begin at a quarter of an hour in all time zones.
// Every sum is stored twice: once for the participant and the link, and once for the whole
// programme.
//
// The package does not store anything and does not read a clock.
package analytics
