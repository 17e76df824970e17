import { useCallback, useState } from "react";
import { useLocation } from "wouter";

import { TributaryError, unwrap, useApp, useSession } from "../../app/app";
import { useInstance } from "../../app/data";
import { Choice, Select } from "../../kit/choices";
import { TextField } from "../../kit/controls";
import { FieldFault, useSubmit } from "../../kit/form";
import { FormDialog } from "../../kit/formDialog";
import { useMembers, useReloadOf } from "../data";
import { SecretDialog } from "../SecretDialog";
import { useTexts } from "../texts";
import type { Member } from "./Members";

interface Props {
  onDone: (text: string) => void;
  onClose: () => void;
}

const roles = ["owner", "admin", "manager", "finance", "developer", "viewer"] as const;
type Role = (typeof roles)[number];

/** The role of a member, with what it allows. Only owners can make others owners. */
function RoleChoice({ defaultValue }: { defaultValue: Role | null }) {
  const { session } = useApp();
  const { t } = useTexts();
  const login = useSession(session);
  const isOwner = login.status === "in" && login.user.role === "owner";
  return (
    <Choice
      name="role"
      label={t.team.role}
      options={roles.filter((role) => isOwner || role !== "owner").map((role): [string, string, string] => [role, t.roles[role], t.team.roles[role]])}
      defaultValue={defaultValue}
      isRequired
    />
  );
}

function roleOf(text: string | undefined, message: string): Role {
  const role = roles.find((role) => role === text);
  if (!role) throw new FieldFault("role", message);
  return role;
}

export function RoleDialog({ member, onDone, onClose }: Props & { member: Member }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("members", "invites");
  const login = useSession(session);
  const isOwn = login.status === "in" && login.user.id === member.id;
  const state = useSubmit(
    useCallback(
      async (values) => {
        const role = roleOf(values.role, t.form.required);
        unwrap(await api.PATCH("/api/v1/workspace/members/{memberId}", { params: { path: { memberId: member.id } }, body: { role } }));
        if (isOwn) session.change({ role });
        await reload();
        onDone(t.team.roleChanged(member.name, t.roles[role]));
        onClose();
      },
      [api, isOwn, member, onClose, onDone, reload, session, t],
    ),
  );
  return (
    <FormDialog title={t.team.roleTitle(member.name)} state={state} label={t.team.changeRole} onClose={onClose}>
      <p>{isOwn ? t.team.ownRoleHint : t.team.roleHint}</p>
      <RoleChoice defaultValue={member.role} />
    </FormDialog>
  );
}

export function RemoveDialog({ member, onDone, onClose }: Props & { member: Member }) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const [, navigate] = useLocation();
  const reload = useReloadOf("members", "invites");
  const login = useSession(session);
  const isOwn = login.status === "in" && login.user.id === member.id;
  const state = useSubmit(
    useCallback(async () => {
      unwrap(await api.DELETE("/api/v1/workspace/members/{memberId}", { params: { path: { memberId: member.id } } }));
      if (isOwn) {
        session.forget();
        navigate("/login");
        return;
      }
      await reload();
      onDone(t.team.removed(member.name));
      onClose();
    }, [api, isOwn, member, navigate, onClose, onDone, reload, session, t]),
  );
  return (
    <FormDialog title={isOwn ? t.team.leaveTitle : t.team.removeTitle(member.name)} state={state} label={isOwn ? t.team.leave : t.team.remove} kind="danger" onClose={onClose}>
      <p>{isOwn ? t.team.leaveHint : t.team.removeHint(member.name)}</p>
    </FormDialog>
  );
}

/** Makes another member the owner, and the user an admin. */
export function TransferDialog({ onDone, onClose }: Props) {
  const { api, session } = useApp();
  const { t } = useTexts();
  const reload = useReloadOf("members", "invites");
  const login = useSession(session);
  const own = login.status === "in" ? login.user.id : "";
  const { data = [] } = useMembers();
  const state = useSubmit(
    useCallback(
      async ({ memberId = "" }) => {
        if (!memberId) throw new FieldFault("memberId", t.form.required);
        const { name } = unwrap(await api.POST("/api/v1/workspace/transfer-ownership", { body: { memberId } }));
        session.change({ role: "admin" });
        await reload();
        onDone(t.team.transferred(name));
        onClose();
      },
      [api, onClose, onDone, reload, session, t],
    ),
  );
  return (
    <FormDialog title={t.team.transfer} state={state} label={t.team.transfer} kind="danger" onClose={onClose}>
      <p>{t.team.transferHint}</p>
      <Select
        name="memberId"
        label={t.team.newOwner}
        options={data.filter(({ id }) => id !== own).map(({ id, name, email }): [string, string] => [id, t.team.named(name, email)])}
        isRequired
      />
    </FormDialog>
  );
}

/** Invites an address, and shows the link for the case that the mail does not arrive. */
export function InviteDialog({ onDone, onClose }: Props) {
  const { api } = useApp();
  const { t } = useTexts();
  const instance = useInstance();
  const reload = useReloadOf("invites");
  const [invited, setInvited] = useState<{ email: string; token: string } | null>(null);
  const state = useSubmit(
    useCallback(
      async ({ email = "", role }) => {
        try {
          const params = { header: { "Idempotency-Key": crypto.randomUUID() } };
          setInvited(unwrap(await api.POST("/api/v1/workspace/invites", { params, body: { email, role: roleOf(role, t.form.required) } })));
        } catch (error) {
          if (error instanceof TributaryError && error.code === "EMAIL_TAKEN") throw new FieldFault("email", t.team.taken);
          throw error;
        }
        await reload();
      },
      [api, reload, t],
    ),
  );
  if (invited) {
    const link = `${location.origin}/accept-invite#token=${invited.token}`;
    const close = () => {
      onDone(t.team.invited(invited.email));
      onClose();
    };
    return <SecretDialog title={t.team.invited(invited.email)} hint={instance?.mail === false ? t.team.linkOnly : t.team.linkHint} secret={link} onClose={close} />;
  }
  return (
    <FormDialog title={t.team.invite} state={state} label={t.team.sendInvite} onClose={onClose}>
      <p>{t.team.inviteHint}</p>
      <TextField name="email" type="email" label={t.form.email} autoComplete="off" isRequired autoFocus />
      <RoleChoice defaultValue={null} />
    </FormDialog>
  );
}
