package postgres

// Store holds the aggregates that do not have a package of their own yet. An
// exported method is one transaction. Its methods are safe for concurrent use.
type Store struct {
	*DB
	recorder gatherer[*recording]
	clicks   *Lookups[*clickLookup]
}

func newStore(db *DB) *Store {
	s := &Store{DB: db}
	s.recorder = gatherer[*recording]{
		most: recordedTogether, atOnce: recorders, timeout: recordTimeout, together: db.gathered, alone: db.pool,
		wants: wantsOf, work: s.recordTogether,
	}
	s.clicks = NewLookups(db, findClicks)
	return s
}
