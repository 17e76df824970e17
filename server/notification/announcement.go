package notification

import (
	"context"

	"google.golang.org/protobuf/proto"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// CreateAnnouncement sends a text to the approved participants of a programme. A request
// with the Idempotency-Key of an earlier request sends nothing and returns the earlier
// response.
func (s *Service) CreateAnnouncement(ctx context.Context, req *affiliatev1.CreateAnnouncementRequest) (*affiliatev1.Announcement, error) {
	program, err := server.PathID[affiliate.ProgramID](req.GetProgramId())
	if err != nil {
		return nil, err
	}
	caller, at := server.PrincipalFrom(ctx), s.currentTime()
	announcement := notification.Announcement{
		ID: affiliate.NewID[notification.AnnouncementID](at), Scope: caller.Scope(), Program: program,
		Title: req.GetTitle(), Body: req.GetBody(), CreatedBy: server.ActorFrom(ctx).ID(), CreatedAt: at,
	}
	if err := announcement.CheckText(); err != nil {
		return nil, err
	}
	key, err := server.OptionalKey(ctx, affiliatev1.NotificationService_CreateAnnouncement_FullMethodName, req, at)
	if err != nil {
		return nil, err
	}
	response, replayed := &affiliatev1.Announcement{}, false
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		stored, err := server.ClaimKey(ctx, tx, announcement.Scope, key)
		if err != nil {
			return err
		}
		if replayed = stored != nil; replayed {
			return proto.Unmarshal(stored, response)
		}
		status, err := notifications.LockProgram(ctx, tx, announcement.Scope, program)
		if err != nil {
			return err
		}
		recent, first, err := notifications.RecentAnnouncements(ctx, tx, announcement.Scope, program, at.Add(-notification.AnnouncementWindow))
		if err != nil {
			return err
		}
		if err := notification.CheckAnnouncement(status, recent, first, at); err != nil {
			return err
		}
		if announcement.Recipients, err = notifications.Announce(ctx, tx, announcement); err != nil {
			return err
		}
		if err := tx.Audit(ctx, affiliate.AuditLine{
			Workspace: announcement.Scope.Workspace, Mode: &announcement.Scope.Mode, Actor: server.ActorFrom(ctx), At: at,
			Action: "program.announce", ResourceType: "program", ResourceID: program,
			After: map[string]any{"announcement": announcement.ID, "title": announcement.Title, "recipients": announcement.Recipients},
		}); err != nil {
			return err
		}
		response = &affiliatev1.Announcement{
			Id: announcement.ID.String(), ProgramId: program.String(), Title: announcement.Title, Body: announcement.Body,
			Recipients: announcement.Recipients, CreatedAt: server.Timestamp(at),
		}
		if stored, err = proto.Marshal(response); err != nil {
			return err
		}
		return server.StoreResponse(ctx, tx, announcement.Scope, key, stored)
	})
	if err != nil {
		return nil, err
	}
	if replayed {
		server.MarkReplayed(ctx)
	}
	return response, nil
}
