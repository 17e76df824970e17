package account

import (
	"context"
	"log/slog"
	"time"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/server"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// storeOrigin stores the network and the browser from which a partner opened or refreshed
// a session. The fraud rules use this data. If the data cannot be stored, storeOrigin
// logs the error but does not return it, because the session has already been opened or
// refreshed.
func (s *Service) storeOrigin(ctx context.Context, user account.User, at time.Time) {
	network := server.ActorFrom(ctx).AddressPrefix
	if user.Kind != affiliate.Partner || network == "" {
		return
	}
	origin := fraud.Origin{User: user.ID, IPPrefix: network, SeenAt: at}
	if agent := agentFrom(ctx); agent != "" {
		origin.AgentHash = fraud.AgentHash(s.hashKeys, agent, at).First()
	}
	if err := accounts.StoreOrigin(ctx, s.db, origin); err != nil {
		slog.WarnContext(ctx, "the origin of a partner's session was not stored", "error", err)
	}
}
