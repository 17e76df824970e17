package notification

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/url"

	"google.golang.org/genproto/googleapis/api/httpbody"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/notification"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	notifications "github.com/tributary-hq/tributary/storage/postgres/notification"
)

// GetNotificationPreferences returns the preferences of a member.
func (s *Service) GetNotificationPreferences(ctx context.Context, _ *affiliatev1.GetNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	reader := readerFrom(ctx)
	choices, err := notifications.Choices(ctx, s.DB, reader.User)
	if err != nil {
		return nil, err
	}
	address, err := notifications.Address(ctx, s.DB, reader.User)
	if err != nil {
		return nil, err
	}
	suppressed, err := postgres.Suppressed(ctx, s.DB, notification.MailDigest(s.HashKeys, address))
	if err != nil {
		return nil, err
	}
	return preferencesToProto(reader.Preferences(choices), suppressed), nil
}

// GetPartnerNotificationPreferences returns the preferences of a partner.
func (s *Service) GetPartnerNotificationPreferences(ctx context.Context, req *affiliatev1.GetNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	return s.GetNotificationPreferences(ctx, req)
}

// UpdateNotificationPreferences changes the preferences of a member.
func (s *Service) UpdateNotificationPreferences(ctx context.Context, req *affiliatev1.UpdateNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	reader := readerFrom(ctx)
	chosen, err := choicesOf(reader, req)
	if err != nil {
		return nil, err
	}
	err = s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		if err := notifications.StoreChoices(ctx, tx, reader.User, chosen); err != nil {
			return err
		}
		return s.stateChanged(ctx, tx, reader)
	})
	if err != nil {
		return nil, err
	}
	return s.GetNotificationPreferences(ctx, nil)
}

// UpdatePartnerNotificationPreferences changes the preferences of a partner.
func (s *Service) UpdatePartnerNotificationPreferences(ctx context.Context, req *affiliatev1.UpdateNotificationPreferencesRequest) (*affiliatev1.NotificationPreferences, error) {
	return s.UpdateNotificationPreferences(ctx, req)
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

// The form field that a mail program sends to unsubscribe, and its value (RFC 8058 section 3.2). A
// request without the field may come from a program that only checks the links of a mail.
const (
	oneClickField = "List-Unsubscribe"
	oneClickValue = "One-Click"
)

// Unsubscribe disables the mails of one category for the user of a token.
func (s *Service) Unsubscribe(ctx context.Context, req *affiliatev1.UnsubscribeRequest) (*affiliatev1.UnsubscribeResponse, error) {
	if err := checkOneClick(req.GetBody()); err != nil {
		return nil, err
	}
	refusal := affiliate.Refuse(affiliate.ReasonUnsubscribeToken)
	user, category, ok := s.unsubscribe.Parse(req.GetToken())
	if !ok {
		return nil, refusal
	}
	if _, err := notifications.Address(ctx, s.DB, user); errors.Is(err, affiliate.Refuse(affiliate.ReasonNotFound)) {
		return nil, refusal // the account was erased
	} else if err != nil {
		return nil, err
	}
	off := false
	err := s.DB.InTx(ctx, func(tx *postgres.Tx) error {
		return notifications.StoreChoices(ctx, tx, user, notification.CategoryChoices{category: {Email: &off}})
	})
	if err != nil {
		return nil, err
	}
	return &affiliatev1.UnsubscribeResponse{
		Category: server.EnumValue[affiliatev1.NotificationCategory](category), Label: category.Label(),
	}, nil
}

// checkOneClick checks the form that a mail program sends. Errors: UNSUPPORTED_MEDIA_TYPE,
// VALIDATION_ERROR.
func checkOneClick(body *httpbody.HttpBody) error {
	mediaType, parameters, err := mime.ParseMediaType(body.GetContentType())
	if err != nil {
		return affiliate.Refuse(affiliate.ReasonUnsupportedMediaType)
	}
	var value string
	switch mediaType {
	case "application/x-www-form-urlencoded":
		form, _ := url.ParseQuery(string(body.GetData())) // returns the valid fields even with an error
		value = form.Get(oneClickField)
	case "multipart/form-data":
		value = multipartField(body.GetData(), parameters["boundary"], oneClickField)
	default:
		return affiliate.Refuse(affiliate.ReasonUnsupportedMediaType)
	}
	if value != oneClickValue {
		return affiliate.Invalid(affiliate.WholeBody, "must be a form with "+oneClickField+"="+oneClickValue)
	}
	return nil
}

// multipartField returns the value of a field in a form, or an empty string if the form
// does not have the field.
func multipartField(body []byte, boundary, name string) string {
	parts := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := parts.NextPart()
		if err != nil {
			return ""
		}
		if part.FormName() != name {
			continue
		}
		value, err := io.ReadAll(part)
		if err != nil {
			return ""
		}
		return string(value)
	}
}
