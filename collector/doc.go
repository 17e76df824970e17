// Package collector is the HTTP service that registers clicks. It runs at the edge, near
// visitors. It receives clicks, stores them durably and then responds.
//
//	request ─ decode ─ key, limit, code (directory) ─ record ─┐  ┌─ XADD ───▶ stream ◀─┐
//	request ─ decode ─ …                            ─ record ─┼─▶│ one batch           │ replay
//	request ─ decode ─ …                            ─ record ─┘  └─ on failure ▶ journal ┘
//
// Records that arrive while a batch is being written form the next batch. A busier
// collector therefore writes larger batches, and no request waits for a timer. If the
// stream does not accept a batch, the collector writes it to the journal on its disk.
// When the stream accepts batches again, the collector moves the journal's records to it.
// A visit of a short link writes the same kind of record in the same batches. The
// response to it is a redirect whose location contains the click id.
//
// Guarantees: the responses 200 and 201, and a redirect with a click id, mean that the
// click is durable, in the stream or on disk. A click is never refused because the
// directory cannot be read. In that case the collector accepts any key with a valid
// checksum, and ingestion looks up the key and the code later. A visitor who follows a
// known link reaches its target even if the click cannot be stored.
//
// Limits: a click can be written to the stream more than once. A click may also be stored
// although its response was lost or was a 503. Ingestion stores each click id only once.
// A client that repeats a request with its proposed click id gets the same click id
// again. A collector stores proposed ids for ten minutes and does not share them with
// other collectors.
package collector
