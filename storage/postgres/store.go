package postgres

import "time"

const (
	// lookedUpTogether bounds the clicks, or keys, of one round trip.
	lookedUpTogether = 64
	lookupTimeout    = 5 * time.Second
)

// Store holds the aggregates that do not have a package of their own yet. An
// exported method is one transaction. Its methods are safe for concurrent use.
type Store struct {
	*DB
	exports  exports
	recorder gatherer[*recording]
	clicks   gatherer[*clickLookup]
	keys     gatherer[*keyLookup]
}

func newStore(db *DB) *Store {
	s := &Store{DB: db}
	s.recorder = gatherer[*recording]{
		most: recordedTogether, atOnce: recorders, timeout: recordTimeout, together: db.gathered, alone: db.pool,
		wants: wantsOf, work: s.recordTogether,
	}
	s.clicks = gatherer[*clickLookup]{
		most: lookedUpTogether, atOnce: 1, timeout: lookupTimeout, together: db.gathered, alone: db.pool, work: s.findClicks,
	}
	s.keys = gatherer[*keyLookup]{
		most: lookedUpTogether, atOnce: 1, timeout: lookupTimeout, together: db.gathered, alone: db.pool, work: s.findKeys,
	}
	return s
}
