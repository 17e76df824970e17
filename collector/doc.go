// Package collector is the HTTP service that registers clicks. It runs at the edge, near
// visitors. It receives clicks, stores them durably and then responds. It uses:
//
//   - the directory, a copy of the keys, referral codes and links in Redis
//   - the stream, the Redis stream from which the core ingests clicks into its database
//   - the journal, files on the collector's own disk that store clicks while the stream
//     is unavailable
//
// The collector writes each click as a record. Records of concurrent requests share a
// batch:
//
//	request ─▶ checks ─▶ record ─┐             ┌── write ──▶ stream ◀──┐
//	request ─▶ checks ─▶ record ─┼─▶ batch ─▶──┤                       │ replay
//	request ─▶ checks ─▶ record ─┘             └─ on error ─▶ journal ─┘
//
// Records that arrive while a batch is being written form the next batch. A busier
// collector therefore writes larger batches, and no request waits for a timer. If the
// stream does not accept a batch, the collector writes the batch to the journal. When the
// stream accepts batches again, the collector moves the records from the journal to the
// stream. When a visitor opens a short link, the collector writes the same kind of record
// in the same batches. It responds with a redirect to a URL that contains the click id.
//
// Guarantees: before the collector responds with 200, 201, or a redirect with a click id,
// the click is durable in the stream or in the journal. The collector never refuses a
// click because it cannot read the directory. In that case it accepts any key with a
// valid checksum, and the core looks up the key and the code when it ingests the click. A
// visitor who opens a known link reaches its target even if the click cannot be stored. If
// the directory cannot be read, a link is known if it was read in the last 24 hours, also by
// an earlier process with the same folder of the journal.
//
// Limits: a click can be written to the stream more than once. A click may also be stored
// although the client got a 503 or no response. The core stores each click id only once.
// A request may propose the id of its click. If the client repeats the request with the
// same proposed id, it gets the same click id again. A collector remembers proposed ids
// for ten minutes and does not share them with other collectors.
package collector
