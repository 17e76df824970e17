package account

import (
	"context"
	"log/slog"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/affiliate/fraud"
	"github.com/tributary-hq/tributary/affiliate/notification"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// seeDevice stores the device of a call that opens or refreshes a session. known reports
// whether the user has used the device in the last account.DeviceMemory.
func (s *Service) seeDevice(ctx context.Context, tx *postgres.Tx, user affiliate.UserID, at time.Time) (known bool, err error) {
	device := account.DeviceHash(s.hashKeys, user, server.ActorFrom(ctx).AddressPrefix, agentFrom(ctx))
	return accounts.SeeDevice(ctx, tx, user, device, at, at.Add(-account.DeviceMemory))
}

// notifyNewDevice notifies a user who has signed in with a device that is not known.
func (s *Service) notifyNewDevice(ctx context.Context, tx *postgres.Tx, holder account.Account, at time.Time) error {
	known, err := s.seeDevice(ctx, tx, holder.User.ID, at)
	if err != nil || known {
		return err
	}
	facts := map[string]string{}
	if network := server.ActorFrom(ctx).AddressPrefix; network != "" {
		facts["network"] = network
	}
	return tx.Notify(ctx, account.Notification(holder, notification.NotifyNewDevice, at, facts)...)
}

// agentFrom returns the user agent of the caller, or an empty string.
func agentFrom(ctx context.Context) string {
	md, _ := metadata.FromIncomingContext(ctx)
	if agents := md.Get("x-user-agent"); len(agents) > 0 {
		return agents[0]
	}
	return ""
}

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
