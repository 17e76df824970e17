import { TributaryError } from "../../../clients/typescript/src/errors.js";
import type { components } from "../../../clients/typescript/src/schema.js";
import { post } from "./request";

/** What the gateway answers when it opens or renews a session: an access token and the account. */
export type OpenedSession = Omit<components["schemas"]["SessionResponse"], "refreshToken">;
export type User = NonNullable<OpenedSession["user"]>;

/** The state of the session in this tab. If this browser is logged in, it is unknown until the first renewal has ended. */
export type SessionState =
  | { status: "unknown" }
  | { status: "out"; /** Whether the session ended while it was used. */ ended: boolean }
  | { status: "in"; user: User; /** The workspace of a member. Null for a partner. */ workspace: OpenedSession["workspace"] };

type Message = { type: "opened"; session: OpenedSession } | { type: "closed" };

/** An access token is renewed when it expires within this time, in milliseconds. */
const renewBefore = 60_000;

/**
 * The session of an account in this browser. The access token is only in the memory of the tab.
 * The secret with which it is renewed is in a cookie that scripts cannot read (HttpOnly), so all
 * tabs share the login. One tab renews at a time, and the others use its token. A logout in one
 * tab reaches the others at once.
 */
export class BrowserSession {
  private state: SessionState;
  private accessToken = "";
  private expiresAt = 0;
  private readonly listeners = new Set<() => void>();
  private readonly channel: BroadcastChannel;

  /** This browser remembers under this name that it is logged in, so that others ask for no session. */
  private readonly mark: string;

  constructor(readonly kind: "partner" | "merchant") {
    this.mark = `tributary-${kind}`;
    this.channel = new BroadcastChannel(this.mark);
    this.state = localStorage.getItem(this.mark) ? { status: "unknown" } : { status: "out", ended: false };
    this.channel.onmessage = ({ data }: MessageEvent<Message>) => {
      if (data.type === "opened") this.store(data.session);
      else this.close(false);
    };
  }

  readonly subscribe = (listener: () => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  readonly snapshot = () => this.state;

  /** Continues the login of this browser, if there is one. */
  async resume(): Promise<void> {
    if (this.state.status !== "unknown") return;
    try {
      await this.renew("");
    } catch (error) {
      if (!isLoggedOut(error)) throw error;
    }
  }

  /** Returns a valid access token. It throws a TributaryError with the status 401 if there is no session. */
  readonly token = async (renew = false): Promise<string> => {
    if (renew || Date.now() > this.expiresAt - renewBefore) await this.renew(this.accessToken);
    return this.accessToken;
  };

  /**
   * Opens a session: path is login, login/second-factor or register. keep says whether the
   * browser keeps the login after it was closed.
   */
  async open(path: string, body: object, keep: boolean): Promise<void> {
    const session = await this.post<OpenedSession>(keep ? `${path}?keepLoggedIn=true` : path, body);
    this.store(session);
    this.send({ type: "opened", session });
  }

  /** Ends the session in all tabs. */
  async logout(): Promise<void> {
    await this.post("logout", {});
    this.forget();
  }

  /** Takes over a change of the account that this tab has made. */
  change(user: Partial<User>): void {
    if (this.state.status === "in") this.set({ ...this.state, user: { ...this.state.user, ...user } });
  }

  /** Takes over a change of the workspace that this tab has made. */
  changeWorkspace(workspace: NonNullable<OpenedSession["workspace"]>): void {
    if (this.state.status === "in") this.set({ ...this.state, workspace });
  }

  /** Ends the session in this tab and the others after the account was erased. */
  forget(): void {
    this.close(false);
    this.send({ type: "closed" });
  }

  private async renew(used: string): Promise<void> {
    await navigator.locks.request(this.mark, async () => {
      // Another tab may have renewed the token while this one waited.
      if (this.accessToken !== used && Date.now() < this.expiresAt - renewBefore) return;
      try {
        const session = await this.post<OpenedSession>("renew", {});
        this.store(session);
        this.send({ type: "opened", session });
      } catch (error) {
        if (isLoggedOut(error)) this.close(this.state.status === "in");
        throw error;
      }
    });
  }

  private post<T>(path: string, body: object): Promise<T> {
    return post<T>(`/session/${this.kind}/${path}`, body);
  }

  private store(session: OpenedSession): void {
    this.accessToken = session.accessToken;
    this.expiresAt = Date.now() + session.expiresIn * 1000;
    localStorage.setItem(this.mark, "yes");
    if (session.user) this.set({ status: "in", user: session.user, workspace: session.workspace });
  }

  private close(ended: boolean): void {
    this.accessToken = "";
    this.expiresAt = 0;
    localStorage.removeItem(this.mark);
    this.set({ status: "out", ended });
  }

  private set(state: SessionState): void {
    this.state = state;
    for (const listener of this.listeners) listener();
  }

  private send(message: Message): void {
    this.channel.postMessage(message);
  }
}

function isLoggedOut(error: unknown): boolean {
  return error instanceof TributaryError && error.status === 401;
}
