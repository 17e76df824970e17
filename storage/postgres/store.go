package postgres

// Store has the methods of all aggregates except accounts and webhooks, which have their
// own sub-packages. An exported method that writes uses one transaction, unless its
// comment says otherwise. Its methods are safe for concurrent use.
type Store struct {
	*DB
	recorder callGrouper[*pendingReport]
	clicks   *Lookups[*clickLookup]
}

func newStore(db *DB) *Store {
	s := &Store{DB: db}
	s.recorder = callGrouper[*pendingReport]{
		maxCalls: maxRecordBatch, maxGroups: recordConcurrency, timeout: recordTimeout, groupPool: db.groups, singlePool: db.pool,
		exclusive: exclusiveKeys, work: s.recordBatch,
	}
	s.clicks = NewLookups(db, findClicks)
	return s
}
