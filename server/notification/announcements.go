package notification

import (
	"context"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
	programs "github.com/tributary-hq/tributary/storage/postgres/program"
)

// ListAnnouncements returns one page of a programme's announcements, newest first.
func (s *Service) ListAnnouncements(ctx context.Context, req *affiliatev1.ListAnnouncementsRequest) (*affiliatev1.ListAnnouncementsResponse, error) {
	program, scope, page := server.PathID[affiliate.ProgramID](req.GetProgramId()), server.PrincipalFrom(ctx).Scope(), server.PageOf(req)
	if _, err := programs.Get(ctx, s.DB, scope, program); err != nil {
		return nil, err
	}
	sent, total, err := notifications.ListAnnouncements(ctx, s.DB, scope, program, page)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.ListAnnouncementsResponse{
		Data: server.ConvertAll(sent, announcementToProto), Total: server.Total(ctx, total),
		Page: int32(page.Number), Limit: int32(page.Size), //nolint:gosec // both were int32 in the request
	}, nil
}

func announcementToProto(a notification.SentAnnouncement) *affiliatev1.Announcement {
	return &affiliatev1.Announcement{
		Id: a.ID.String(), ProgramId: a.Program.String(), Title: a.Title, Body: a.Body, Recipients: a.Recipients,
		CreatedAt: server.Timestamp(a.CreatedAt), CreatedBy: server.OptionalID(a.CreatedBy), CreatedByName: a.CreatedByName,
	}
}
