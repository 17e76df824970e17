package mail

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// encryption is the value of tls in an SMTP URL.
type encryption string

const (
	startTLS    encryption = "starttls"
	implicitTLS encryption = "implicit"
	noTLS       encryption = "none"
)

// defaultPorts has every valid encryption.
var defaultPorts = map[encryption]string{startTLS: "587", implicitTLS: "465", noTLS: "25"}

// server is a parsed SMTP URL.
type server struct {
	host       string
	port       string
	user       string // empty: no authentication
	password   string
	encryption encryption
}

// CheckURL returns an error if s is not a valid SMTP URL:
// smtp://user:password@host:587?tls=starttls|implicit|none. The user, the port and tls are
// optional. Without tls, STARTTLS is required. The default port is 587, 465 or 25, as tls
// is starttls, implicit or none. Special characters of the user and the password are
// percent-encoded. The error does not contain s, because s contains a password.
func CheckURL(s string) error {
	_, err := parseURL(s)
	return err
}

func parseURL(s string) (server, error) {
	u, err := url.Parse(s)
	if err != nil {
		// The error of url.Parse contains the URL.
		return server{}, errors.New("the SMTP URL cannot be parsed; percent-encode special characters of the password")
	}
	if u.Scheme != "smtp" {
		return server{}, errors.New("the SMTP URL must begin with smtp://")
	}
	if u.Hostname() == "" || strings.ContainsFunc(u.Hostname(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return server{}, errors.New("the SMTP URL must have an ASCII host name")
	}
	if strings.Trim(u.Path, "/") != "" || u.Opaque != "" || u.Fragment != "" {
		return server{}, errors.New("the SMTP URL must not have a path or fragment; percent-encode special characters of the password")
	}
	sv := server{host: u.Hostname(), port: u.Port()}
	if sv.encryption, err = parseEncryption(u.RawQuery); err != nil {
		return server{}, err
	}
	if sv.port == "" {
		sv.port = defaultPorts[sv.encryption]
	}
	if n, err := strconv.ParseUint(sv.port, 10, 16); err != nil || n == 0 {
		return server{}, errors.New("the port of the SMTP URL must be from 1 to 65535")
	}
	sv.user = u.User.Username()
	sv.password, _ = u.User.Password()
	if (sv.user == "") != (sv.password == "") {
		return server{}, errors.New("the SMTP URL must have both a user and a password, or neither")
	}
	if hasControl(sv.user) || hasControl(sv.password) {
		return server{}, errors.New("the user and the password of the SMTP URL must not have control characters")
	}
	return sv, nil
}

func parseEncryption(query string) (encryption, error) {
	values, err := url.ParseQuery(query)
	if err != nil {
		return "", errors.New("the query of the SMTP URL cannot be parsed")
	}
	for name, v := range values {
		if name != "tls" || len(v) != 1 {
			return "", errors.New("the SMTP URL accepts only the parameter tls, once")
		}
	}
	e := startTLS
	if values.Has("tls") {
		e = encryption(values.Get("tls"))
	}
	if _, ok := defaultPorts[e]; !ok {
		return "", fmt.Errorf("tls in the SMTP URL must be %s, %s or %s", startTLS, implicitTLS, noTLS)
	}
	return e, nil
}

func (s server) address() string { return net.JoinHostPort(s.host, s.port) }

// isResend reports whether the server is Resend's, which reads an idempotency key.
func (s server) isResend() bool {
	host := strings.ToLower(strings.TrimSuffix(s.host, "."))
	return host == "resend.com" || strings.HasSuffix(host, ".resend.com")
}
