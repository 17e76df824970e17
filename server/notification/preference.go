package notification

import (
	"context"
	"fmt"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// GetNotificationPreferences returns the preferences of a member.
func (s *Service) GetNotificationPreferences(ctx context.Context, _ *affiliatev1.GetNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	return s.preferences(ctx)
}

// GetPartnerNotificationPreferences returns the preferences of a partner.
func (s *Service) GetPartnerNotificationPreferences(ctx context.Context, _ *affiliatev1.GetNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	return s.preferences(ctx)
}

// UpdateNotificationPreferences changes the preferences of a member.
func (s *Service) UpdateNotificationPreferences(ctx context.Context, req *affiliatev1.UpdateNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	return s.updatePreferences(ctx, req)
}

// UpdatePartnerNotificationPreferences changes the preferences of a partner.
func (s *Service) UpdatePartnerNotificationPreferences(ctx context.Context, req *affiliatev1.UpdateNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	return s.updatePreferences(ctx, req)
}

func (s *Service) preferences(ctx context.Context) (*affiliatev1.NotificationPreferences, error) {
	reader := readerFrom(ctx)
	choices, err := notifications.Choices(ctx, s.db, reader.User)
	if err != nil {
		return nil, err
	}
	address, err := notifications.Address(ctx, s.db, reader.User)
	if err != nil {
		return nil, err
	}
	suppressed, err := postgres.Suppressed(ctx, s.db, notification.MailDigest(s.hashKeys, address))
	if err != nil {
		return nil, err
	}
	return preferencesToProto(reader.Preferences(choices), suppressed), nil
}

func (s *Service) updatePreferences(ctx context.Context, req *affiliatev1.UpdateNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	reader := readerFrom(ctx)
	chosen, err := choicesOf(reader, req)
	if err != nil {
		return nil, err
	}
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := notifications.StoreChoices(ctx, tx, reader.User, chosen); err != nil {
			return err
		}
		return s.stateChanged(ctx, tx, reader)
	})
	if err != nil {
		return nil, err
	}
	return s.preferences(ctx)
}

// choicesOf returns the choices of a request. Errors: VALIDATION_ERROR if the reader does
// not receive a category or a category occurs twice; NOTIFICATION_CATEGORY_PROTECTED.
func choicesOf(reader notification.Reader, req *affiliatev1.UpdateNotificationPreferencesRequest) (notification.CategoryChoices, error) {
	chosen := notification.CategoryChoices{}
	var found affiliate.Violations
	var protected error
	for i, change := range req.GetCategories() {
		category := categoryOf(change.GetCategory())
		field := fmt.Sprintf("categories[%d].category", i)
		if _, twice := chosen[category]; twice {
			found.Add(field, "must not occur twice")
		}
		choice := notification.CategoryChoice{Email: change.Email, InApp: change.InApp}
		known, err := reader.CheckChoice(category, choice)
		if !known {
			found.Add(field, "must be one of the categories that you receive")
		}
		if protected == nil {
			protected = err
		}
		chosen[category] = choice
	}
	if err := found.Err(); err != nil {
		return nil, err
	}
	return chosen, protected
}
