package tributary

import (
	"context"
	"sync"
	"time"

	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// renewBefore is the time before the expiry of an access token at which Token renews it.
const renewBefore = time.Minute

// Session is the login session of a merchant or a partner. Its access token is valid for
// 15 minutes, and Token renews it. Use Token as the Credential of another client. In this
// example, anonymous is a client without a credential:
//
//	tokens, err := anonymous.Accounts.LoginMerchant(ctx, &affiliatev1.LoginRequest{Email: …, Password: …})
//	session := tributary.NewSession(anonymous, tokens)
//	client, err := tributary.New(target, tributary.Options{Credential: session.Token, Mode: "test", …})
//
// If the account has a second factor, the login fails with SECOND_FACTOR_REQUIRED, and
// CompleteLogin returns the session.
type Session struct {
	client *Client

	mu      sync.Mutex
	tokens  *affiliatev1.SessionResponse
	expires time.Time
}

// NewSession returns a session. tokens is the response to a login, a registration or a
// refresh. The client must have no credential, and must stay open as long as the session
// is used.
func NewSession(client *Client, tokens *affiliatev1.SessionResponse) *Session {
	s := &Session{client: client}
	s.store(tokens)
	return s
}

// CompleteLogin completes a login with a code of the authenticator app or a recovery code, and
// returns the session. The parameter kind is the kind of the account. The challenge is the
// result of Challenge for the error of the login, and is valid for 5 minutes. The client must
// be as for NewSession. Errors: INVALID_CREDENTIALS if the code is wrong, after which another
// code can be tried; CHALLENGE_INVALID if the login has to be repeated.
func CompleteLogin(ctx context.Context, client *Client, kind affiliatev1.AccountKind, challenge, code string) (*Session, error) {
	complete := client.Accounts.LoginMerchantSecondFactor
	if kind == affiliatev1.AccountKind_ACCOUNT_KIND_PARTNER {
		complete = client.Accounts.LoginPartnerSecondFactor
	}
	tokens, err := complete(ctx, &affiliatev1.LoginSecondFactorRequest{Challenge: challenge, Code: code})
	if err != nil {
		return nil, err
	}
	return NewSession(client, tokens), nil
}

// Token returns a valid access token. It renews the token if it expires within a minute.
// Concurrent calls of Token cause only one renewal.
func (s *Session) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Until(s.expires) < renewBefore {
		request := &affiliatev1.RefreshSessionRequest{RefreshToken: s.tokens.GetRefreshToken()}
		tokens, err := s.client.Accounts.RefreshSession(ctx, request)
		if err != nil {
			return "", err
		}
		s.store(tokens)
	}
	return s.tokens.GetAccessToken(), nil
}

// RefreshToken returns the newest refresh token. A refresh token can be used only once. A
// program that wants to continue the session after a restart must store the newest one.
func (s *Session) RefreshToken() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tokens.GetRefreshToken()
}

func (s *Session) store(tokens *affiliatev1.SessionResponse) {
	s.tokens = tokens
	s.expires = time.Now().Add(time.Duration(tokens.GetExpiresIn()) * time.Second)
}
