package server

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/participant"
)

// The issuer and audience of access tokens and participant tokens.
const (
	tokenIssuer   = "tributary"
	tokenAudience = "tributary-api"
	// tokenLeeway is the accepted clock difference in the checks of exp and nbf.
	tokenLeeway = 30 * time.Second
)

var errTokenExpired = errors.New("access token expired")

// TokenKeys signs and verifies access tokens and participant tokens. The only algorithm is
// EdDSA (Ed25519). A token whose header names another algorithm is rejected.
type TokenKeys struct {
	signingKid string                        // the id (kid) of the key that signs
	keys       map[string]ed25519.PrivateKey // all keys by id
	now        func() time.Time
	parser     *jwt.Parser
}

// ParseTokenKeys parses the setting TRIBUTARY_JWT_KEYS, a list in the form
// `kid:base64,…`. A kid is the id of a key, and each key is the 32 bytes of an Ed25519
// seed. The first key signs new tokens. All keys verify tokens. To replace the signing
// key, an operator adds a new key at the front of the list. The operator can remove the
// old key 15 minutes later, when all tokens that it signed have expired.
func ParseTokenKeys(list string, now func() time.Time) (*TokenKeys, error) {
	k := &TokenKeys{
		keys: map[string]ed25519.PrivateKey{},
		now:  now,
		parser: jwt.NewParser(
			jwt.WithValidMethods([]string{jwt.SigningMethodEdDSA.Alg()}),
			jwt.WithIssuer(tokenIssuer),
			jwt.WithAudience(tokenAudience),
			jwt.WithExpirationRequired(),
			jwt.WithLeeway(tokenLeeway),
			jwt.WithTimeFunc(now),
			jwt.WithStrictDecoding(),
		),
	}
	for part := range strings.SplitSeq(list, ",") {
		kid, encoded, ok := strings.Cut(strings.TrimSpace(part), ":")
		seed, err := base64.StdEncoding.DecodeString(encoded)
		if !ok || kid == "" || err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("each entry must be kid:base64 of %d bytes", ed25519.SeedSize)
		}
		if _, ok := k.keys[kid]; ok {
			return nil, fmt.Errorf("kid %q is in the list twice", kid)
		}
		if k.signingKid == "" {
			k.signingKid = kid
		}
		k.keys[kid] = ed25519.NewKeyFromSeed(seed)
	}
	return k, nil
}

// Public returns the public keys by kid. The edge directory stores them, so that
// collectors can verify tokens.
func (k *TokenKeys) Public() map[string]ed25519.PublicKey {
	public := make(map[string]ed25519.PublicKey, len(k.keys))
	for kid, key := range k.keys {
		public[kid] = key.Public().(ed25519.PublicKey)
	}
	return public
}

// participantType is the claim typ of a participant token. The claim typ of an access token
// is the kind of the account.
const participantType affiliate.AccountKind = "participant"

// claims are the claims of an access token or a participant token. A participant token has
// no session. Its subject is the participant, and its claim act (RFC 8693) is the member or
// service token that has created it. The claim role is information for clients. The core
// does not use it but reads the role from the database.
type claims struct {
	jwt.RegisteredClaims
	Type      affiliate.AccountKind `json:"typ"`
	Workspace string                `json:"wid,omitempty"`
	Role      affiliate.Role        `json:"role,omitempty"`
	Session   string                `json:"sid,omitempty"`
	Creator   *creatorClaim         `json:"act,omitempty"`
}

// creatorClaim is the claim act. Type is affiliate.Merchant or serviceType.
type creatorClaim struct {
	Subject string                `json:"sub"`
	Type    affiliate.AccountKind `json:"typ"`
}

// serviceType is the type of a creator that is a service token.
const serviceType affiliate.AccountKind = "service"

// verifiedToken is the content of a valid token. In an access token, session is set. In a
// participant token, participant is set.
type verifiedToken struct {
	session     affiliate.SessionID
	participant *participantClaim
	expiresAt   time.Time
}

// participantClaim is the participant of a participant token. creator has the id of the
// member or service token that has created the token.
type participantClaim struct {
	workspace affiliate.WorkspaceID
	id        affiliate.ParticipantID
	creator   affiliate.Actor
}

// actor returns the id of the creator. ok is false if the claim is not valid.
func (c creatorClaim) actor() (actor affiliate.Actor, ok bool) {
	switch c.Type {
	case affiliate.Merchant:
		id, ok := affiliate.ParseID[affiliate.UserID](c.Subject)
		return affiliate.Actor{User: &id}, ok
	case serviceType:
		id, ok := affiliate.ParseID[affiliate.ServiceTokenID](c.Subject)
		return affiliate.Actor{ServiceToken: &id}, ok
	case affiliate.Partner: // partners create no participant tokens
	}
	return affiliate.Actor{}, false
}

// Sign returns an access token for a session. It expires after account.AccessTokenLife.
func (k *TokenKeys) Sign(user account.User, session affiliate.SessionID, member *account.Member) (string, error) {
	c := claims{
		RegisteredClaims: registered(user.ID.String(), k.now(), account.AccessTokenLife),
		Type:             user.Kind,
		Session:          session.String(),
	}
	if member != nil {
		c.Workspace, c.Role = member.Workspace.String(), member.Role
	}
	return k.sign(c)
}

// SignParticipant returns a participant token and the time at which it expires. It is valid
// for participant.TokenLife. The creator is a member or a service token.
func (k *TokenKeys) SignParticipant(
	workspace affiliate.WorkspaceID, id affiliate.ParticipantID, creator affiliate.Actor,
) (token string, expiresAt time.Time, err error) {
	c := claims{
		RegisteredClaims: registered(id.String(), k.now(), participant.TokenLife),
		Type:             participantType,
		Workspace:        workspace.String(),
		Creator:          &creatorClaim{Subject: creator.String(), Type: affiliate.Merchant},
	}
	if creator.ServiceToken != nil {
		c.Creator.Type = serviceType
	}
	token, err = k.sign(c)
	return token, c.ExpiresAt.UTC(), err
}

func registered(subject string, now time.Time, life time.Duration) jwt.RegisteredClaims {
	return jwt.RegisteredClaims{
		Issuer:    tokenIssuer,
		Subject:   subject,
		Audience:  jwt.ClaimStrings{tokenAudience},
		ExpiresAt: jwt.NewNumericDate(now.Add(life)),
		NotBefore: jwt.NewNumericDate(now),
		IssuedAt:  jwt.NewNumericDate(now),
		ID:        affiliate.NewID[affiliate.ID[claims]](now).String(),
	}
}

func (k *TokenKeys) sign(c claims) (string, error) {
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	token.Header["kid"] = k.signingKid
	return token.SignedString(k.keys[k.signingKid])
}

// verify checks a token and returns its content. It returns errTokenExpired if the token
// has a correct signature but has expired.
func (k *TokenKeys) verify(text string) (verifiedToken, error) {
	// The decoder ignores line breaks, even if it is strict.
	if strings.ContainsAny(text, "\r\n") {
		return verifiedToken{}, jwt.ErrTokenMalformed
	}
	var c claims
	_, err := k.parser.ParseWithClaims(text, &c, func(t *jwt.Token) (any, error) {
		for _, forbidden := range []string{"jku", "x5u", "jwk", "x5c", "crit"} {
			if _, ok := t.Header[forbidden]; ok {
				return nil, fmt.Errorf("header %s is not allowed", forbidden)
			}
		}
		kid, _ := t.Header["kid"].(string)
		key, ok := k.keys[kid]
		if !ok {
			return nil, errors.New("unknown kid")
		}
		return key.Public(), nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired) && !errors.Is(err, jwt.ErrTokenSignatureInvalid):
		return verifiedToken{}, errTokenExpired
	case err != nil:
		return verifiedToken{}, err
	}
	token := verifiedToken{expiresAt: c.ExpiresAt.UTC()}
	switch c.Type {
	case affiliate.Merchant, affiliate.Partner:
		var ok bool
		if token.session, ok = affiliate.ParseID[affiliate.SessionID](c.Session); !ok {
			return verifiedToken{}, errors.New("claim sid is not valid")
		}
	case participantType:
		workspace, ok := affiliate.ParseID[affiliate.WorkspaceID](c.Workspace)
		id, idOK := affiliate.ParseID[affiliate.ParticipantID](c.Subject)
		if !ok || !idOK {
			return verifiedToken{}, errors.New("claim wid or sub is not valid")
		}
		if c.Creator == nil {
			return verifiedToken{}, errors.New("claim act is missing")
		}
		creator, ok := c.Creator.actor()
		if !ok {
			return verifiedToken{}, errors.New("claim act is not valid")
		}
		token.participant = &participantClaim{workspace: workspace, id: id, creator: creator}
	default:
		return verifiedToken{}, errors.New("claim typ is not valid")
	}
	return token, nil
}
