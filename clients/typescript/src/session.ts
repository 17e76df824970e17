import createFetchClient, { type Client } from "openapi-fetch";

import { unwrap } from "./errors.js";
import { retrying } from "./retry.js";
import type { components, paths } from "./schema.js";

type Tokens = components["schemas"]["SessionResponse"];

export interface SessionOptions {
  /** The address of the gateway. */
  baseUrl: string;
  /**
   * Receives each new refresh token. A refresh token can be used only once, so a program that
   * wants to continue the session after a restart must store the newest one.
   */
  onRefreshToken?: (refreshToken: string) => void | Promise<void>;
  /** The fetch function. Default: globalThis.fetch. */
  fetch?: (request: Request) => Promise<Response>;
}

/** The time before the expiry of an access token at which it is renewed. */
const renewBeforeMs = 60_000;

/**
 * The login session of a merchant or a partner. Its access token is valid for 15 minutes, and
 * the token method renews it. Pass this method to createTributary as the credential:
 *
 *     const session = await Session.login({ baseUrl, account: "merchant", email, password });
 *     const client = createTributary({ baseUrl, credential: session.token, mode: "test" });
 *
 * If the account has a second factor, login throws a TributaryError with the code
 * SECOND_FACTOR_REQUIRED, and completeLogin returns the session.
 */
export class Session {
  private accessToken = "";
  private expiresAt = 0;
  private renewal: Promise<void> | undefined;

  private constructor(
    private readonly client: Client<paths>,
    private readonly options: SessionOptions,
    private refreshToken: string,
  ) {}

  /** Logs in with a password and returns the new session. */
  static async login(
    options: SessionOptions & { account: "merchant" | "partner"; email: string; password: string },
  ): Promise<Session> {
    const session = new Session(clientOf(options), options, "");
    const { email, password } = options;
    await session.store(
      unwrap(
        options.account === "merchant"
          ? await session.client.POST("/api/v1/auth/merchant/login", { body: { email, password } })
          : await session.client.POST("/api/v1/auth/partner/login", { body: { email, password } }),
      ),
    );
    return session;
  }

  /**
   * Completes a login with a code of the authenticator app or a recovery code, and returns the
   * new session. The challenge is in the TributaryError of the login. It is valid for 5 minutes.
   * After INVALID_CREDENTIALS, another code can be tried. After CHALLENGE_INVALID, the login has
   * to be repeated.
   */
  static async completeLogin(
    options: SessionOptions & { account: "merchant" | "partner"; challenge: string; code: string },
  ): Promise<Session> {
    const session = new Session(clientOf(options), options, "");
    const { challenge, code } = options;
    await session.store(
      unwrap(
        options.account === "merchant"
          ? await session.client.POST("/api/v1/auth/merchant/login/second-factor", { body: { challenge, code } })
          : await session.client.POST("/api/v1/auth/partner/login/second-factor", { body: { challenge, code } }),
      ),
    );
    return session;
  }

  /** Continues a session from its newest refresh token. */
  static resume(options: SessionOptions & { refreshToken: string }): Session {
    return new Session(clientOf(options), options, options.refreshToken);
  }

  /**
   * Returns a valid access token. It renews the token if it expires within a minute, or
   * if renew is true. Concurrent calls cause only one renewal.
   */
  readonly token = async (renew = false): Promise<string> => {
    if (renew || Date.now() > this.expiresAt - renewBeforeMs) {
      this.renewal ??= this.refresh().finally(() => (this.renewal = undefined));
      await this.renewal;
    }
    return this.accessToken;
  };

  /** Ends the session on the server. */
  async logout(): Promise<void> {
    unwrap(await this.client.POST("/api/v1/auth/logout", { body: { refreshToken: this.refreshToken } }));
  }

  private async refresh(): Promise<void> {
    await this.store(unwrap(await this.client.POST("/api/v1/auth/refresh", { body: { refreshToken: this.refreshToken } })));
  }

  private async store(tokens: Tokens): Promise<void> {
    this.accessToken = tokens.accessToken;
    this.refreshToken = tokens.refreshToken;
    this.expiresAt = Date.now() + tokens.expiresIn * 1000;
    await this.options.onRefreshToken?.(tokens.refreshToken);
  }
}

function clientOf(options: SessionOptions): Client<paths> {
  const send = options.fetch ?? ((request: Request) => globalThis.fetch(request));
  return createFetchClient<paths>({ baseUrl: options.baseUrl, fetch: retrying(send) });
}
