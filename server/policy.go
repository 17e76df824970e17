package server

import (
	"fmt"
	"slices"

	"google.golang.org/grpc"

	"github.com/tributary-hq/tributary/affiliate"
	affiliatev1 "github.com/tributary-hq/tributary/gen/affiliate/v1"
)

// Zone is a rate limit zone (docs/merchant/rate-limits.md). Each zone has its own limit.
type Zone string

// The zones in which the core counts calls. There is also a tracking zone, in which
// the collector counts requests.
const (
	// ZoneNone means that calls are not counted before the method. It is for health checks, and for methods that
	// count only failed calls or count by what they find.
	ZoneNone        Zone = ""
	ZoneGeneral     Zone = "general"
	ZoneAuth        Zone = "auth"
	ZoneConversions Zone = "conversions"
	// ZoneSession counts the renewals of a browser's session by the session.
	ZoneSession Zone = "session"
	// ZoneMailProvider counts the messages of the mail provider by the provider's address.
	ZoneMailProvider Zone = "mail_provider"
	// ZoneUnsubscribe counts the calls of unsubscribe links by the caller's address.
	ZoneUnsubscribe Zone = "unsubscribe"
	// ZoneResend is the zone of the calls that mail the verification of an address again.
	// Its limit is per account and hour.
	ZoneResend Zone = "resend"
	// ZoneErasure, ZoneBuyerErasure and ZoneExport are the zones of the calls that erase or
	// export personal data. Their limits are per account and hour.
	ZoneErasure      Zone = "erasure"
	ZoneBuyerErasure Zone = "buyer_erasure"
	ZoneExport       Zone = "export"
	// ZoneInviteAddress counts the mailed invitations by the invited address. ZoneInvites
	// counts them by the workspace. The type Invitations uses both.
	ZoneInviteAddress Zone = "invite_address"
	ZoneInvites       Zone = "invites"
)

// Action is a row of the role matrix (docs/contract.md#permissions): a group of methods that
// require the same permission.
type Action string

// The actions of the role matrix.
const (
	readDashboards  Action = "read dashboards"
	runPrograms     Action = "programmes, partners, links, codes"
	review          Action = "approve, reject, override, review"
	managePayouts   Action = "payouts confirm, mark paid"
	manageKeys      Action = "webhooks, API keys, processor"
	readMailLog     Action = "notification log"
	manageWorkspace Action = "members, settings"
	exportPersonal  Action = "exports of personal data, participant and buyer erasure"
	ownWorkspace    Action = "account erasure, ownership"
)

// roles is the role matrix. It maps each action to the roles that may perform the action.
var roles = map[Action][]affiliate.Role{
	readDashboards: {
		affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance,
		affiliate.RoleDeveloper, affiliate.RoleViewer,
	},
	runPrograms:     {affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager},
	review:          {affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleManager, affiliate.RoleFinance},
	managePayouts:   {affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleFinance},
	manageKeys:      {affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleDeveloper},
	readMailLog:     {affiliate.RoleOwner, affiliate.RoleAdmin, affiliate.RoleDeveloper},
	manageWorkspace: {affiliate.RoleOwner, affiliate.RoleAdmin},
	exportPersonal:  {affiliate.RoleOwner, affiliate.RoleAdmin},
	ownWorkspace:    {affiliate.RoleOwner},
}

// Roles returns the roles that may perform the action.
func (a Action) Roles() []affiliate.Role { return slices.Clone(roles[a]) }

// Sets of credentials for Policy.Accept.
var (
	merchants = MerchantToken | ServiceToken
	// The service must restrict a call with a ParticipantToken to the participation of the
	// token (Principal.Participation).
	participations = PartnerToken | ParticipantToken
)

// Policy states what a method requires of its caller.
type Policy struct {
	// Accept is the set of credential kinds that may call the method. If the set contains
	// NoCredential, the method needs no credential and ignores the credential of the
	// call.
	Accept Credential
	// Action is the action that the role of a member or of a service token must permit. It
	// is used for calls with a MerchantToken or a ServiceToken.
	Action Action
	// Zone is the rate limit zone of the method. In ZoneAuth, which is for the paths below
	// /api/v1/auth/ and for tokens of invitations, calls count per address even if they have a valid credential.
	Zone Zone
	// AccountZone is a second zone, in which each call counts for Principal.AccountableUser. ZoneNone means
	// that there is no second zone. WorkspaceZone is a second zone in which each call counts for the workspace.
	AccountZone, WorkspaceZone Zone
	// Verified states whether the caller's e-mail address must be verified. It has an
	// effect only if the deployment requires verified addresses.
	Verified Verified
	// Refusal is the error code for a missing or bad credential. It is UNAUTHORIZED, except
	// that methods for secret keys have other error codes. An expired access token always
	// results in UNAUTHORIZED.
	Refusal affiliate.Reason
	// Payouts means that the method is a step in the payment of payouts, or reads payout accounts.
	// A service token must have been created with the permission for payouts, and a member must
	// have a second factor if the workspace requires one, even if the method only reads.
	Payouts bool
	// ServiceMode is the mode that a service token must have. It is set for methods that
	// have an effect outside the mode of the call. If it is empty, tokens of both modes are
	// accepted.
	ServiceMode affiliate.Mode
	// IgnoresMode means that the method acts on one fixed mode and ignores the X-Mode header,
	// even an invalid one.
	IgnoresMode bool
	// Reads means that the method changes nothing. If the workspace requires a second factor,
	// a member without one may call only methods with Reads and without Payouts, and methods
	// with WithoutFactor. The latter are needed to add a second factor or to read
	// notifications.
	Reads, WithoutFactor bool
	// AcceptsKey means that a repeated call with the same Idempotency-Key returns the first
	// response. A call of a method without AcceptsKey must not have this header.
	AcceptsKey bool
	// Lasting means that a call may last until the access token expires.
	Lasting bool
	// Erased means that the token of an erased account may call the method, which returns
	// ALREADY_ERASED.
	Erased bool
}

// Verified states in which mode a method requires that the caller's e-mail address is
// verified.
type Verified int

// The values of Verified. VerifiedForLive is for methods that have an effect in the mode of
// the call. VerifiedAlways is for methods that have the same effect in both modes.
const (
	NeedNotBeVerified Verified = iota
	VerifiedForLive
	VerifiedAlways
)

// PolicyOf returns the policy of a method. ok is false if the method has no policy.
func PolicyOf(fullMethod string) (policy Policy, ok bool) {
	policy, ok = policies[fullMethod]
	return policy, ok
}

func checkPolicies(services []Service) error {
	for _, service := range services {
		for _, method := range methodsOf(service.Desc) {
			if _, ok := policies[method]; !ok && method != affiliatev1.GateService_Admit_FullMethodName {
				return fmt.Errorf("method %s has no policy", method)
			}
		}
	}
	return nil
}

// methodsOf returns the full names of the methods of a service.
func methodsOf(service *grpc.ServiceDesc) (methods []string) {
	for _, method := range service.Methods {
		methods = append(methods, "/"+service.ServiceName+"/"+method.MethodName)
	}
	for _, stream := range service.Streams {
		methods = append(methods, "/"+service.ServiceName+"/"+stream.StreamName)
	}
	return methods
}

// authorise returns an error if the policy does not allow a caller with this identity to call
// the method. It checks the credential (errors with status 401) before the permission (errors
// with status 403). requireVerified is the setting that makes Policy.Verified effective.
func (p Policy) authorise(id identity, requireVerified bool) error {
	if p.Accept&NoCredential != 0 {
		return nil
	}
	switch id.fault {
	case faultExpired:
		return affiliate.Refuse(affiliate.ReasonUnauthorized)
	case faultMissing, faultInvalid, faultErased:
		return affiliate.Refuse(p.Refusal)
	case noFault:
	}
	if p.Accept&id.principal.Kind == 0 {
		return affiliate.Refuse(affiliate.ReasonForbidden)
	}
	if id.principal.Erased {
		return nil // the account has no role any more
	}
	if id.principal.Kind&(MerchantToken|ServiceToken) != 0 && !slices.Contains(roles[p.Action], id.principal.Role) {
		return affiliate.Refuse(affiliate.ReasonForbidden)
	}
	if token := id.principal.Service; token != nil &&
		(p.Payouts && !token.AllowPayouts || p.ServiceMode != "" && p.ServiceMode != token.Mode) {
		return affiliate.Refuse(affiliate.ReasonForbidden)
	}
	if id.factorMissing && (!p.Reads || p.Payouts) && !p.WithoutFactor {
		return affiliate.Refuse(affiliate.ReasonSecondFactorSetupRequired)
	}
	needsVerified := p.Verified == VerifiedAlways || p.Verified == VerifiedForLive && id.principal.Mode == affiliate.ModeLive
	if requireVerified && needsVerified && !id.emailVerified {
		return affiliate.Refuse(affiliate.ReasonEmailNotVerified)
	}
	return nil
}
