package mail

// Phase is the step of an attempt that failed.
type Phase string

// The phases of an attempt, in order.
const (
	PhaseCompose  Phase = "compose"  // the message is invalid, nothing was sent
	PhaseConnect  Phase = "connect"  // name resolution and TCP
	PhaseTLS      Phase = "tls"      // STARTTLS or the implicit handshake
	PhaseGreeting Phase = "greeting" // before PhaseTLS with STARTTLS, after it otherwise
	PhaseHello    Phase = "hello"    // EHLO or HELO
	PhaseAuth     Phase = "auth"     // AUTH
	PhaseSender   Phase = "sender"   // MAIL FROM
	PhaseRcpt     Phase = "rcpt"     // RCPT TO
	PhaseData     Phase = "data"     // DATA and the content
	PhaseAccept   Phase = "accept"   // the reply after the final dot
)
