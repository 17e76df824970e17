// Package mail sends the mails that other packages have stored, shows them in the
// notification log of test mode, and receives the webhooks of the mail provider.
//
// A mail is stored in the transaction of its cause, with a job that sends it. Worker runs
// the job. It decides whether and where the mail is sent, composes it, hands it to the
// mail server and stores the outcome.
//
// Guarantees: a mail is sent at least once, unless the decision is to suppress it or all
// attempts fail. If a process crashes after the mail server has accepted a mail, the mail
// is sent again with the same Message-ID. The tokens in links are deleted from the
// database with the last attempt, and the stored content of a mail does not contain them.
// An address that was refused, that bounced or whose owner complained gets only security
// mail and mail that its owner requests.
//
// Not guaranteed: mails are not sent in the order of their causes. The acceptance by the
// mail server does not mean that the recipient gets the mail.
package mail
