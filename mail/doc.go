// Package mail composes mails from documents and sends them over SMTP.
//
// Guarantees:
//   - A mail has an HTML part and a text part with the same content. Text of the document
//     stays text: it never becomes markup, a link or a header. CR, LF and NUL never reach
//     a header.
//   - The HTML part loads nothing: no images, no external styles, no tracking pixels.
//   - Every attempt with the same message has the same Message-ID.
//   - Send returns nil only after the server accepted the mail. Every other result is a
//     *SendError that says how to treat the failure.
//   - The password is sent only over TLS, unless the URL has tls=none. No error contains
//     the password or the address of the recipient.
//
// Not guaranteed: that a mail is sent once. If the connection ends between the final dot
// and the reply, the server may have accepted the mail; a repetition sends it again.
// Send does not retry, does not queue, and opens a connection for every mail. A mail that
// the server accepted can still bounce later.
//
// The package imports nothing of this module, because the core and the landing service
// use it.
package mail
