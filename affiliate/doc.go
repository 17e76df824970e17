// Package affiliate is the domain model in plain Go: programmes and their commission
// rules, participants, clicks, attribution, commissions with their legal moves,
// payouts, and the errors that callers see.
//
// It guarantees that every decision about money is a pure function of its arguments.
// The package does not read a clock, a database or the network, and no amount is a
// float. Amounts are integers in minor units of an ISO 4217 currency, rates are basis
// points, and times are UTC with milliseconds.
//
// It does not guarantee durability or isolation. Package storage/postgres executes each
// legal move with one conditional UPDATE.
package affiliate
