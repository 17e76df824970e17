// Package affiliate has what every part of the domain needs: ids, mode and scope, money,
// errors, actors, periods, pages, and the envelope of events. The rules of each aggregate, for
// example programmes, commissions or payouts, are in a package below affiliate.
//
// These packages are plain Go. They guarantee that every decision about money is a pure
// function of its arguments: they do not read a clock, a database or the network, and no
// amount is a float. Amounts are integers in minor units of an ISO 4217 currency, rates are
// basis points, and times are UTC with milliseconds.
//
// They do not guarantee durability or isolation. Package storage/postgres stores each change of
// a status with one conditional UPDATE.
package affiliate
