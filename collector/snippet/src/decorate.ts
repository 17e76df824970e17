// Adds the click id to elements that lead to the purchase: Stripe Payment Links, Stripe's
// elements, links to the merchant's other sites, and forms. In this file, to decorate an
// element or an address means to add the id to it.

import { attempt, clickID, guard, settings, split } from "./env";
import { current, discountNow } from "./store";
import type { Discount } from "./send";

const checkouts = split([settings.checkout, "buy.stripe.com"] + "");
/** Hosts of the merchant's other sites. */
const siblings = split(settings.domains);

/** Selects the elements that are decorated as soon as they are in the page. */
const selector = "input[data-aff-coupon],stripe-buy-button,stripe-pricing-table,form[data-aff]" + checkouts.map((host) => ',a[href*="' + host.replace("*", "") + '"]').join("");

/**
 * The ids and promo codes that this script wrote into the page. It may replace or remove
 * only these.
 */
const written: Record<string, unknown> = {};

/**
 * Calls write with the current id, or with "" if there is no click. The argument old is
 * the id that the element has now. If the element has an id that this script did not
 * write, rewrite does not call write.
 */
const rewrite = (old: string | null, write: (id: string) => void, id = current() || ""): void => {
  if (old ? old !== id && written[old] : id) {
    written[id] = 1;
    write(id);
  }
};

/**
 * Reports whether a list contains a host. An entry that begins with "*." matches all
 * subdomains.
 */
const matches = (list: string[], host: string): boolean => list.some((entry) => entry === host || (entry[0] === "*" && host.endsWith(entry.slice(1))));

/**
 * Returns the address with the id, or undefined if the address does not change. Addresses
 * of hosts that are not in the merchant's lists change only if anyHost is true.
 */
const decorateAddress = (address: string, anyHost?: boolean): string | undefined => {
  const url = new URL(address, location.href);
  const host = url.hostname;
  let name = clickID;
  let changed: string | undefined;
  if (matches(checkouts, host)) name = "client_reference_id";
  else if (!host || !(anyHost || (host !== location.hostname && matches(siblings, host)))) return;
  rewrite(url.searchParams.get(name), (id) => {
    // Edit the query as text, because URLSearchParams would rewrite all of it.
    url.search = (url.search.replace("?", "&").replace(RegExp("&" + name + "=[^&]*"), "") + (id && "&" + name + "=" + id)).slice(1);
    changed = url.href;
  });
  return changed;
};

/** An element that is decorated: a link, a form, an input field or an element of Stripe. */
type Decorated = HTMLAnchorElement & HTMLInputElement;

const decorateElement = (element: Decorated, anyHost?: boolean): void => {
  const reference = "client-reference-id";
  // The only input fields that are decorated are those for the partner's promo code.
  if (element.matches("input"))
    rewrite(
      element.value,
      (code) => {
        element.value = code;
      },
      ((discountNow() || {}) as Discount).code || "",
    );
  else if (element.matches("form")) {
    const field =
      element.querySelector<HTMLInputElement>("[name=" + clickID + "]") || Object.assign(document.createElement("input"), { type: "hidden", name: clickID });
    rewrite(field.value, (id) => {
      if (!field.form) element.append(field);
      // Without an id, disable the field, so that the form does not send it.
      field.disabled = !(field.value = id);
    });
  } else if (element.href) {
    const address = decorateAddress(element.href, anyHost);
    if (address) element.href = address;
  } else if (element.matches(selector))
    rewrite(element.getAttribute(reference), (id) => (id ? element.setAttribute(reference, id) : element.removeAttribute(reference)));
};

/** Decorates every matching element below root. */
const decorateBelow = (root: ParentNode): void => root.querySelectorAll<Decorated>(selector).forEach((element) => decorateElement(element));

/** Decorates elements that are added to the page. */
const observer = new MutationObserver(
  // Each parent to which elements were added is decorated once.
  guard((records: MutationRecord[]) => new Set(records.map((record) => record.target as Element)).forEach(decorateBelow)),
);

/**
 * Decorates the page and all elements that are added later. If there is no click, it
 * removes the ids that this script wrote.
 */
export const decorateAll = (): void => {
  decorateBelow(document);
  // A second observe of the same document has no effect.
  if (current()) observer.observe(document, { childList: true, subtree: true });
};

/** Decorates the elements that a user event targets. */
export const decorateTarget = (event: Event): void =>
  (event.composedPath() as Decorated[]).forEach((element) => {
    if (element.matches && element.matches("[href]," + selector)) decorateElement(element);
  });

/**
 * Decorates an address or an element that the page passes. It returns the new address. If
 * the argument is an element or an address that does not change, it returns the argument.
 */
export const decorate = (value: unknown): unknown =>
  attempt(() => (typeof value === "string" ? decorateAddress(value, true) : decorateElement(value as Decorated, true))) || value;
