// The click id in what leads to the purchase: Payment Links, Stripe's elements,
// links to the merchant's other sites, forms.

import { attempt, clickID, guard, settings, words } from "./env";
import { current } from "./store";

const checkouts = words(settings.checkout).concat("buy.stripe.com");
const siblings = words(settings.domains);

/** What is decorated as soon as it is in the page. */
const selector = "stripe-buy-button,stripe-pricing-table,form[data-aff]" + checkouts.map((host) => ',a[href*="' + host.replace("*", "") + '"]').join("");

/** The ids that this page wrote: only those may be replaced. */
const written: Record<string, unknown> = {};

/** Writes the id where old stands; "" takes back what this page wrote. */
const rewrite = (old: string | null, write: (id: string) => void): void => {
  const id = current() || "";
  if (old ? old !== id && written[old] : id) {
    written[id] = 1;
    write(id);
  }
};

/** Whether a host is in a list; *. stands for any subdomain. */
const within = (list: string[], host: string): boolean => list.some((entry) => entry === host || (entry[0] === "*" && host.endsWith(entry.slice(1))));

/** The address with the id, or undefined when it stays as it is; any: of whatever host. */
const tagged = (address: string, any?: boolean): string | undefined => {
  const url = new URL(address, location.href);
  const host = url.hostname;
  let name = clickID;
  let changed: string | undefined;
  if (within(checkouts, host)) name = "client_reference_id";
  else if (!host || !(any || (host !== location.hostname && within(siblings, host)))) return;
  rewrite(url.searchParams.get(name), (id) => {
    // The rest of the query stays as it was written.
    url.search = (url.search.replace("?", "&").replace(RegExp("&" + name + "=[^&]*"), "") + (id && "&" + name + "=" + id)).slice(1);
    changed = url.href;
  });
  return changed;
};

const decorateElement = (element: HTMLAnchorElement, any?: boolean): void => {
  const reference = "client-reference-id";
  if (element.matches("form")) {
    const field =
      element.querySelector<HTMLInputElement>("[name=" + clickID + "]") || Object.assign(document.createElement("input"), { type: "hidden", name: clickID });
    rewrite(field.value, (id) => {
      if (!field.form) element.append(field);
      // What is disabled is not sent.
      field.disabled = !(field.value = id);
    });
  } else if (element.href) {
    const address = tagged(element.href, any);
    if (address) element.href = address;
  } else if (element.matches(selector))
    rewrite(element.getAttribute(reference), (id) => (id ? element.setAttribute(reference, id) : element.removeAttribute(reference)));
};

/** Every element of the selector below a part of the page. */
const sweep = (root: Document | Element): void => root.querySelectorAll<HTMLAnchorElement>(selector).forEach((element) => decorateElement(element));

/** Decorates what comes into the page. */
const observer = new MutationObserver(
  guard((records: MutationRecord[]) =>
    records.forEach((record) =>
      (record.addedNodes as NodeListOf<HTMLAnchorElement>).forEach((element) => {
        if (element.matches) {
          if (element.matches(selector)) decorateElement(element);
          sweep(element);
        }
      }),
    ),
  ),
);

/** Decorates the page for the id that is known now, and what comes into it later. Without one, takes back what was written. */
export const decorateAll = (): void => {
  sweep(document);
  // Observing again what is observed changes nothing.
  if (current()) observer.observe(document, { childList: true, subtree: true });
};

/** Decorates what a person reaches for. */
export const decorateTarget = (event: Event): void =>
  (event.composedPath() as HTMLAnchorElement[]).forEach((element) => {
    if (element.matches && element.matches("[href]," + selector)) decorateElement(element);
  });

/** Decorates what the page asks for: the address, or an element. */
export const decorate = (what: unknown): unknown =>
  attempt(() => (typeof what === "string" ? tagged(what, true) : decorateElement(what as HTMLAnchorElement, true))) || what;
