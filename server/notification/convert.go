package notification

import (
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
)

func categoryOf(category affiliatev1.NotificationCategory) notification.Category {
	return notification.Category(server.EnumName(category))
}

func (s *Service) entryToProto(entry notification.Entry) *affiliatev1.Notification {
	rule := entry.Rule()
	title, body := entry.Text(entry.Names)
	out := &affiliatev1.Notification{
		Id:          entry.ID.String(),
		Category:    server.EnumValue[affiliatev1.NotificationCategory](rule.Category),
		Type:        string(entry.Type),
		Title:       title,
		Body:        body,
		Severity:    server.EnumValue[affiliatev1.NotificationSeverity](rule.Severity),
		ActionUrl:   entry.ActionURL(s.appURL),
		Read:        entry.ReadAt != nil,
		ReadAt:      server.OptionalTimestamp(entry.ReadAt),
		DismissedAt: server.OptionalTimestamp(entry.DismissedAt),
		CreatedAt:   server.Timestamp(entry.CreatedAt()),
	}
	if entry.Mode != nil {
		out.Mode = server.EnumValue[affiliatev1.Mode](*entry.Mode)
	}
	if entry.Resource != nil && rule.Resource != notification.NoResource {
		out.Resource = &affiliatev1.NotificationResource{
			Type: string(rule.Resource), Id: entry.Resource.String(), ProgramId: server.OptionalID(entry.Program),
		}
	}
	return out
}

func preferencesToProto(preferences []notification.CategoryPreference, suppressed bool) *affiliatev1.NotificationPreferences {
	out := &affiliatev1.NotificationPreferences{EmailSuppressed: suppressed}
	for _, p := range preferences {
		out.Categories = append(out.Categories, &affiliatev1.CategoryPreference{
			Category:  server.EnumValue[affiliatev1.NotificationCategory](p.Category),
			Label:     p.Label,
			Protected: p.Protected,
			Email:     p.Email,
			InApp:     p.InApp,
		})
	}
	return out
}
