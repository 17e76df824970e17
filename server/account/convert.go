package account

import (
	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func (s *Service) respond(user affiliate.User, member *affiliate.Member, session affiliate.SessionID, refresh token) (*affiliatev1.SessionResponse, error) {
	access, err := s.signer.Sign(user, session, member)
	if err != nil {
		return nil, err
	}
	resp := &affiliatev1.SessionResponse{
		AccessToken:  access,
		RefreshToken: refresh.text(),
		TokenType:    "Bearer",
		ExpiresIn:    int64(affiliate.AccessTokenLife.Seconds()),
		User: &affiliatev1.User{
			Id:        user.ID.String(),
			Kind:      server.FromWord[affiliatev1.AccountKind](user.Kind),
			Email:     user.Email,
			Name:      user.Name,
			Country:   user.Country,
			CreatedAt: server.Timestamp(user.CreatedAt),
		},
	}
	if member != nil {
		resp.User.Role = server.FromWord[affiliatev1.Role](member.Role)
		resp.Workspace = workspace(member.Workspace)
	}
	return resp, nil
}

func workspace(w affiliate.Workspace) *affiliatev1.Workspace {
	return &affiliatev1.Workspace{
		Id:               w.ID.String(),
		Name:             w.Name,
		Currency:         w.Currency,
		Timezone:         w.Timezone,
		AllowedOrigins:   w.AllowedOrigins,
		OriginPolicy:     server.FromWord[affiliatev1.OriginPolicy](w.OriginPolicy),
		TestMailRedirect: w.TestMailRedirect,
		CreatedAt:        server.Timestamp(w.CreatedAt),
		UpdatedAt:        server.Timestamp(w.UpdatedAt),
	}
}
