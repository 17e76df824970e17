// Package inventory is the inventory of the data in the database. It lists every column of
// every table and says whether the column identifies a person, whose data it is, and what
// each erasure does to it.
//
// The inventory is data and has no effect: it neither reads nor changes the database. The
// erasures and exports are written from it, and tools/privacydocs generates
// docs/privacy.md from it. A test compares it with the migrated database, so it has every
// column of the schema and no others.
//
// A migration that adds a column adds the column here. These questions decide the class:
//
//   - Does the value identify a person without other data? Names, addresses, codes that
//     may be derived from a name, texts that people typed, payout accounts, and the
//     network of an IP address do. The class is Personal.
//   - Does the value refer to one person, but only together with other data or a key? Ids
//     of users, participants and clicks, keyed hashes, and the ids of payment processors
//     do. The class is Pseudonymous.
//   - All other values are Business: amounts, states, times, counts, settings, and ids of
//     workspaces, programmes, conversions, commissions and payouts. They belong to a person
//     only through a Personal or Pseudonymous value of the same row or of a row to which
//     the row refers.
package inventory
