// Package export exports the personal data of a partner, of a participant, or of a merchant's
// workspace as a bundle: one JSON document that is downloaded with a link.
//
//	request ─▶ lock the subject ─▶ bundle exists? ─ yes ─▶ new token ─▶ 200
//	                                   │ no
//	                     make the bundle, or wait for it ─▶ new token ─▶ 200
//	                                   │ large workspace
//	                     job makes the bundle ─▶ mail with the link      202
//
// A bundle is read in pages of one snapshot of the database and written in pieces. Each piece
// is compressed on its own and encrypted, and stored with the progress. The pieces together
// are one gzip stream. Neither making nor downloading a bundle needs memory for more than one
// page and one piece.
//
// The package guarantees:
//
//   - A bundle contains data of its subject only. It contains no secrets, and a pseudonym in
//     place of each buyer. A partner does not get what is internal to a merchant.
//   - At most one bundle of a subject is made at a time, by one process: the process holds a
//     lease, which it extends with each piece. If the process crashes, the next request or the
//     next attempt of the job continues from the last piece.
//   - A link works until the bundle expires or the data of its subject is erased. An erasure
//     also stops a bundle that is being made.
//   - A stored bundle cannot be read without the encryption keys, and its pieces cannot be
//     exchanged.
//
// Not guaranteed: a bundle that was continued, or that needed several jobs, is read from
// several snapshots. A record that changed in the meantime is in the bundle as it was when
// its page was read.
package export
