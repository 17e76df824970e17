package account

import (
	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

// sessionResponse returns the response to a call that opened or refreshed a session. The
// response contains a new access token. workspace is nil if the account belongs to a
// partner.
func (s *Service) sessionResponse(
	holder account.Account, workspace *account.Workspace, session affiliate.SessionID, refresh token,
) (*affiliatev1.SessionResponse, error) {
	user := holder.User
	access, err := s.signer.Sign(user, session, holder.Member)
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.SessionResponse{
		AccessToken:  access,
		RefreshToken: refresh.text(),
		TokenType:    "Bearer",
		ExpiresIn:    int64(account.AccessTokenLife.Seconds()),
		User: &affiliatev1.User{
			Id:            user.ID.String(),
			Kind:          server.EnumValue[affiliatev1.AccountKind](user.Kind),
			Email:         user.Email,
			EmailVerified: user.EmailVerified,
			SecondFactor:  user.SecondFactor,
			Name:          user.Name,
			Country:       user.Country,
			CreatedAt:     server.Timestamp(user.CreatedAt),
		},
	}
	if workspace != nil {
		resp.User.Role = server.EnumValue[affiliatev1.Role](holder.Member.Role)
		resp.Workspace = server.WorkspaceForRole(*workspace, holder.Member.Role)
	}
	return resp, nil
}
