// Package instance describes this installation of the service to apps, before a person logs
// in. Everything in the response is public.
package instance

import (
	"context"
	"sync/atomic"

	"github.com/tributary-hq/tributary/affiliate/account"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
	"github.com/tributary-hq/tributary/server"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// Config has the facts about the installation.
type Config struct {
	DB *postgres.DB
	// Version is the version of the running binary.
	Version string
	// MerchantRegistration and PartnerRegistration say who can create an account.
	MerchantRegistration, PartnerRegistration account.Registration
	// Mail is true if the service sends mail.
	Mail bool
	// ConsoleURL, PortalURL and LinkURL are base URLs, or "" if unknown.
	ConsoleURL, PortalURL, LinkURL string
}

// Service implements affiliate.v1.InstanceService.
type Service struct {
	affiliatev1.UnimplementedInstanceServiceServer
	config Config
	// wasSetUp is true after a workspace was found. The database is not queried after that.
	wasSetUp atomic.Bool
}

// New returns the service.
func New(c Config) *Service { return &Service{config: c} }

// GetInstance returns the facts about the installation.
func (s *Service) GetInstance(ctx context.Context, _ *affiliatev1.GetInstanceRequest) (*affiliatev1.Instance, error) {
	setupRequired, err := s.SetupRequired(ctx)
	if err != nil {
		return nil, err
	}
	return &affiliatev1.Instance{
		Version:              s.config.Version,
		MerchantRegistration: server.EnumValue[affiliatev1.RegistrationMode](s.config.MerchantRegistration),
		PartnerRegistration:  server.EnumValue[affiliatev1.RegistrationMode](s.config.PartnerRegistration),
		Mail:                 s.config.Mail,
		ConsoleUrl:           server.OptionalString(s.config.ConsoleURL),
		PortalUrl:            server.OptionalString(s.config.PortalURL),
		LinkUrl:              server.OptionalString(s.config.LinkURL),
		SetupRequired:        setupRequired,
	}, nil
}

// SetupRequired reports whether the first workspace has to be created with the set-up code.
func (s *Service) SetupRequired(ctx context.Context) (bool, error) {
	if s.config.MerchantRegistration == account.OpenRegistration || s.wasSetUp.Load() {
		return false, nil
	}
	exists, err := accounts.AnyWorkspace(ctx, s.config.DB)
	s.wasSetUp.Store(exists)
	return !exists && err == nil, err
}
