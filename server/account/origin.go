package account

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/server"
)

// noteOrigin notes from where a partner used its account. Its session is open by
// now, and a refresh token spent: a note that fails must not cost them that.
func (s *Service) noteOrigin(ctx context.Context, user affiliate.User, at time.Time) {
	network := server.ActorFrom(ctx).AddressPrefix
	if user.Kind != affiliate.Partner || network == "" {
		return
	}
	origin := affiliate.Origin{User: user.ID, IPPrefix: network, SeenAt: at}
	md, _ := metadata.FromIncomingContext(ctx)
	if agents := md.Get("x-user-agent"); len(agents) > 0 && agents[0] != "" {
		origin.AgentHash = affiliate.AgentHash(s.hashKey, agents[0], at)
	}
	if err := s.store.NoteOrigin(ctx, origin); err != nil {
		slog.WarnContext(ctx, "the origin of a partner's session was not noted", "error", err)
	}
}
