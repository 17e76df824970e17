package account

import (
	"context"
	"strings"

	"github.com/tributary-hq/tributary/affiliate"
	"github.com/tributary-hq/tributary/affiliate/account"
	"github.com/tributary-hq/tributary/storage/postgres"
	accounts "github.com/tributary-hq/tributary/storage/postgres/account"
)

// CreateWorkspace creates a workspace for the operator of the service, whatever the
// registration setting is. It returns the text of a token with which the owner sets the
// password, as with the token of a mail that resets a password. The token is valid for
// account.InviteLife. The account has an unusable password, so no login to it is possible
// until the owner has set one. Errors: EMAIL_TAKEN.
func (s *Service) CreateWorkspace(ctx context.Context, email, name, workspaceName string) (id affiliate.WorkspaceID, resetToken string, err error) {
	at := s.currentTime()
	workspace := account.NewWorkspace(workspaceName, at)
	owner := account.Account{
		User: account.User{
			ID: affiliate.NewID[affiliate.UserID](at), Kind: affiliate.Merchant, Email: strings.ToLower(email), Name: name, CreatedAt: at,
		},
		Member:       &account.Member{Workspace: workspace.ID, Role: affiliate.RoleOwner},
		PasswordHash: UnusableHash(),
	}
	token, text, digest := account.NewClaimToken(owner.User, at)
	err = s.db.InTx(ctx, func(tx *postgres.Tx) error {
		if err := insertOwner(ctx, tx, owner, workspace, affiliate.System, at); err != nil {
			return err
		}
		return accounts.InsertEmailToken(ctx, tx, token, digest)
	})
	return workspace.ID, text, err
}
