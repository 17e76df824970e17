// This script serves the pages for verifying an address, setting a password, accepting an
// invitation and disabling mails. It reads the token from the link and sends it to the API
// when the user submits the form.
"use strict";

const page = document.body.dataset.page;
const form = document.getElementById("form");
const message = document.getElementById("message");
const button = form.querySelector("button");
const link = new URLSearchParams(page === "unsubscribe" ? location.search : location.hash.slice(1));
const token = link.get("token");
// The links of these two pages do not contain the kind of the account.
const kind = page === "verify-email" || page === "unsubscribe" ? "merchant" : link.get("kind");

// ApiError is an error response of the API.
class ApiError extends Error {
  constructor(body, retryAfter) {
    super(body.message);
    this.code = body.code;
    this.details = body.details ?? [];
    this.challenge = body.challenge ?? null;
    this.retryAfter = retryAfter;
  }
}

// post sends a JSON request to the API and returns the body of the response.
function post(path, body, headers = {}) {
  return send(path, JSON.stringify(body), { "Content-Type": "application/json", ...headers });
}

async function send(path, body, headers) {
  const response = await fetch("/api/v1" + path, { method: "POST", headers, body, credentials: "omit" });
  if (response.status === 204) {
    return null;
  }
  const result = await response.json();
  if (!response.ok) {
    throw new ApiError(result, response.headers.get("Retry-After"));
  }
  return result;
}

function value(name) {
  return form.elements[name].value;
}

async function verifyAddress() {
  await post("/auth/email/verify", { token });
  return "Your e-mail address is verified. You can close this page.";
}

async function unsubscribe() {
  const form = new URLSearchParams({ "List-Unsubscribe": "One-Click" });
  const { label } = await send(`/notifications/unsubscribe?token=${encodeURIComponent(token)}`, form, {});
  return `You get no more mails of the category “${label}”. You can enable them again in your preferences.`;
}

async function resetPassword() {
  await post(`/auth/${kind}/reset-password`, { token, password: value("password") });
  return "Your new password is set. Log in with it on each of your devices.";
}

async function acceptAsMember() {
  const body = { token, name: value("name"), password: value("password") };
  const { user, workspace } = await post("/auth/merchant/accept-invite", body);
  return `You are now a member of ${workspace.name}. Log in with ${user.email}.`;
}

// session is the session of the partner. If the invitation cannot be accepted at the first
// attempt, for example because of the terms, the next attempt uses the same session.
let session = null;

// challenge is the challenge of a login that needs a code, because the account has a second
// factor.
let challenge = null;

async function acceptAsPartner() {
  session ??= await openSession();
  setChallenge(null);
  await joinProgram();
  const { refreshToken, user } = session;
  session = null;
  // The page needs the session no longer. If the request fails, the session expires.
  await post("/auth/partner/logout", { refreshToken }).catch(() => {});
  return `You are now a partner in the programme. Log in with ${user.email}.`;
}

// openSession registers or logs in the partner. If the account has a second factor, the first
// call fails, and the next call completes the login with the code.
function openSession() {
  if (challenge) {
    return post("/auth/partner/login/second-factor", { challenge, code: value("code") });
  }
  const body = { email: value("email"), password: value("password") };
  if (isNew()) {
    return post("/auth/partner/register", { ...body, name: value("name"), inviteToken: token });
  }
  return post("/auth/partner/login", body);
}

// setChallenge stores the challenge and shows the fields of the step that follows.
function setChallenge(text) {
  challenge = text;
  form.elements.code.value = "";
  showFields();
}

// joinProgram accepts the invitation. The link does not say whether the programme is in
// live or in test mode. In the wrong mode, the response is 404.
async function joinProgram() {
  const body = { token, acceptTerms: form.elements.acceptTerms.checked };
  const headers = { Authorization: `Bearer ${session.accessToken}` };
  try {
    await post("/partner/invites/accept", body, { ...headers, "X-Mode": "live" });
  } catch (error) {
    if (error.code !== "NOT_FOUND") {
      throw error;
    }
    await post("/partner/invites/accept", body, { ...headers, "X-Mode": "test" });
  }
}

// isNew reports whether the form creates an account.
function isNew() {
  return kind === "merchant" || value("account") === "register";
}

// showFields shows the fields of the kind of account, those of a new account, and those of
// the step of the login.
function showFields() {
  const step = challenge ? "code" : "login";
  for (const element of document.querySelectorAll("[data-kind], [data-new], [data-step]")) {
    const wanted = element.dataset;
    element.hidden =
      (wanted.kind ?? kind) !== kind || (wanted.step ?? step) !== step || ("new" in wanted && !isNew());
  }
  form.elements.password.autocomplete = isNew() ? "new-password" : "current-password";
}

const actions = {
  "verify-email": verifyAddress,
  unsubscribe,
  "reset-password": resetPassword,
  "accept-invite": kind === "partner" ? acceptAsPartner : acceptAsMember,
};

function show(text, failed) {
  message.textContent = text;
  message.className = failed ? "message failure" : "message success";
  message.hidden = false;
}

// showFaults shows each fault of the request at its field. It returns the number of faults
// that were shown.
function showFaults(details) {
  let shown = 0;
  for (const { field, message: text } of details) {
    const fault = document.getElementById(`${field}-fault`);
    const input = document.getElementById(field);
    if (!fault || input.closest("[hidden]")) {
      continue;
    }
    // The sentence of the API begins with the name of the field in the request.
    fault.textContent = input.dataset.fault ?? text.replace(/^\w+/, input.dataset.name);
    fault.hidden = false;
    input.setAttribute("aria-invalid", "true");
    if (shown === 0) {
      input.focus();
    }
    shown++;
  }
  return shown;
}

function hideFaults() {
  message.hidden = true;
  for (const fault of form.querySelectorAll(".fault")) {
    fault.hidden = true;
  }
  for (const input of form.querySelectorAll("[aria-invalid]")) {
    input.removeAttribute("aria-invalid");
  }
}

function showError(error) {
  if (!(error instanceof ApiError)) {
    show("The service did not respond. Check your connection and try again.", true);
    return;
  }
  if (error.code === "UNAUTHORIZED") {
    session = null; // the session has expired, so the next attempt logs in again
  }
  if (error.code === "SECOND_FACTOR_REQUIRED") {
    setChallenge(error.challenge);
    show("The password is right. Your account has a second factor, so enter a code too.", false);
    form.elements.code.focus();
    return;
  }
  if (error.code === "CHALLENGE_INVALID") {
    setChallenge(null); // the next attempt logs in again
  }
  if (error.code === "NOT_FOUND") {
    show("The invitation is not valid. It has expired, or it was used or revoked.", true);
    return;
  }
  if (showFaults(error.details) > 0) {
    show("Check the marked fields.", true);
    return;
  }
  const sentences = [error.message, ...error.details.map((detail) => detail.message)];
  if (error.retryAfter) {
    sentences.push(`Try again in ${error.retryAfter} seconds.`);
  }
  show(sentences.join(" "), true);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  hideFaults();
  button.disabled = true;
  try {
    const text = await actions[page]();
    form.hidden = true;
    document.querySelectorAll(".lead").forEach((lead) => (lead.hidden = true));
    show(text, false);
    message.focus();
    // The token was used, so the history of the browser need not contain it.
    history.replaceState(null, "", location.pathname);
  } catch (error) {
    showError(error);
  } finally {
    button.disabled = false;
  }
});

for (const box of document.querySelectorAll("[data-shows]")) {
  box.addEventListener("change", () => {
    document.getElementById(box.dataset.shows).type = box.checked ? "text" : "password";
  });
}

if (page === "accept-invite") {
  showFields();
  for (const choice of form.querySelectorAll("[name=account]")) {
    choice.addEventListener("change", () => {
      hideFaults();
      session = null;
      showFields();
    });
  }
}

if (!token || (kind !== "merchant" && kind !== "partner")) {
  form.hidden = true;
  show("The link is incomplete. Copy the whole link from the mail, or open the mail again.", true);
}

// A browser does not load the page again if only the fragment of its address changes.
addEventListener("hashchange", () => location.reload());
