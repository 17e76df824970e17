package main

// The settings of the core's mail that dev sets.
const (
	smtpURLName   = "TRIBUTARY_SMTP_URL"
	mailFromName  = "TRIBUTARY_MAIL_FROM"
	publicURLName = "TRIBUTARY_PUBLIC_URL"
)

// mailCapacity is the number of mails that the mail sink keeps.
const mailCapacity = 1000

// sendToSink sets the settings of the core's mail that values does not contain. With
// these settings the core sends all mails to the mail sink, so that no mail leaves the
// machine. The links in the mails lead to the REST API of this run.
func sendToSink(values map[string]string, listeners portListeners) {
	for name, value := range map[string]string{
		smtpURLName:   "smtp://" + address(listeners.mailSMTP()) + "?tls=none",
		mailFromName:  "Tributary <mail@tributary.localhost>",
		publicURLName: "http://" + address(listeners.api()),
	} {
		if isMissing(values, name) {
			values[name] = value
		}
	}
}
