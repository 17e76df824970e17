// Package collector is the edge: it takes clicks over HTTP, makes them durable
// and answers.
//
//	request ─ decode ─ key, limit, code (directory) ─ record ─┐  ┌─ XADD ─▶ stream ◀─┐
//	request ─ decode ─ …                            ─ record ─┼─▶│ one batch         │ replay
//	request ─ decode ─ …                            ─ record ─┘  └─ or else ▶ journal ┘
//
// Records that arrive while a batch is on its way form the next one: the busier
// the collector, the larger its batches, and no timer delays anybody. A batch
// that the stream does not take goes to the journal on the collector's disk, and
// from there to the stream when it answers again.
//
// A short link is the second way in: the same record through the same batches,
// answered by a redirect that carries the click's id.
//
// It guarantees that 200 and 201, and a redirect with a click id, mean that the
// click is durable, in the stream or on disk, and that a click is never turned away because
// the directory could not be read: a key whose checksum is right is taken
// unresolved and ingestion resolves it. Who follows a link that is known gets to
// its target, whatever becomes of the click.
//
// It does not promise that a click is written once: an answer that was lost, or
// a 503, may stand for a written click. The click id makes it one row, and a
// client that repeats its proposed id gets the same id again. Repeats are
// remembered in this process only, for ten minutes.
package collector
