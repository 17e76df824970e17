// Package collector is the edge: it takes clicks over HTTP, makes them durable and
// responds.
//
//	request ─ decode ─ key, limit, code (directory) ─ record ─┐  ┌─ XADD ─▶ stream ◀─┐
//	request ─ decode ─ …                            ─ record ─┼─▶│ one batch         │ replay
//	request ─ decode ─ …                            ─ record ─┘  └─ or else ▶ journal ┘
//
// Records that arrive while a batch is being written form the next batch. The busier
// the collector, the larger its batches; no request waits for a timer. A batch that the
// stream does not take goes to the journal on the collector's disk, and from there to
// the stream when it answers again. A short link makes the same record in the same
// batches; its response is a redirect with the click's id.
//
// Guarantees: 200, 201 and a redirect with a click id mean that the click is durable,
// in the stream or on disk. A click is never refused because the directory cannot be
// read: a key with a valid checksum is accepted and ingestion resolves the click. A
// visitor who follows a known link reaches its target even if the click is not stored.
//
// Limits: a click can be written more than once, and a click whose response was lost or
// was a 503 may be stored. The click id makes it one row. A client that repeats its
// proposed id gets the same click id again. A collector remembers proposed ids for ten
// minutes, and other collectors do not know them.
package collector
