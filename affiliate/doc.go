// Package affiliate is the domain in plain Go: programmes and their commission
// rules, participants, clicks, attribution, commissions and their legal moves,
// and the refusals that callers see.
//
// It guarantees that every decision about money is a pure function of its
// arguments: nothing in here reads a clock, a database or the network, and no
// amount is ever a float. Amounts are integer minor units of an ISO 4217
// currency, rates are basis points, instants are UTC with milliseconds.
//
// It does not promise durability or isolation: storage/postgres guards each
// move that this package declares legal with one conditional UPDATE.
package affiliate
