// The click id in what leads to the purchase: Payment Links, Stripe's elements,
// links to the merchant's other sites, forms.

import { clickID, guard, settings, words } from "./env";
import { current } from "./store";

const checkouts = words("buy.stripe.com," + (settings.checkout || ""));
const siblings = words(settings.domains);

/** What is decorated as soon as it is in the page. */
const selector = "stripe-buy-button,stripe-pricing-table,form[data-aff]" + checkouts.map((host) => ',a[href*="' + host.replace("*", "") + '"]').join("");

/** How far an address may be decorated: only Payment Links, siblings too, any. */
const enum Reach {
  checkout,
  sibling,
  any,
}

/** The ids that this page wrote: only those may be replaced. */
const written: Record<string, unknown> = {};

/** The id to write where old stands, or "". */
const idFor = (old: string | null): string => {
  const id = current();
  if (!id || (old && !written[old])) return "";
  written[id] = 1;
  return id;
};

/** Whether a host is in a list; *. stands for any subdomain. */
const within = (list: string[], host: string): boolean =>
  list.some((entry) => entry === host || (entry[0] === "*" && host.slice(1 - entry.length) === entry.slice(1)));

const tagged = (address: string, reach: Reach): string => {
  const url = new URL(address, location.href);
  const host = url.hostname;
  let name = clickID;
  if (within(checkouts, host)) name = "client_reference_id";
  else if (!host || (reach < Reach.any && !(reach && host !== location.hostname && within(siblings, host)))) return address;
  const old = url.searchParams.get(name);
  const id = idFor(old);
  if (!id) return address;
  // The rest of the query stays as it was written.
  if (old === null) url.search += (url.search && "&") + name + "=" + id;
  else url.searchParams.set(name, id);
  return url.href;
};

const decorateElement = (element: Element, reach: Reach): void => {
  const link = element as HTMLAnchorElement;
  const reference = "client-reference-id";
  if (element.localName === "form") {
    let field = element.querySelector<HTMLInputElement>("[name=" + clickID + "]");
    const id = idFor(field && field.value);
    if (!id) return;
    if (!field) {
      field = document.createElement("input");
      field.type = "hidden";
      field.name = clickID;
      element.appendChild(field);
    }
    field.value = id;
  } else if (link.href) {
    const address = tagged(link.href, reach);
    if (address !== link.href) link.href = address;
  } else if (element.matches(selector)) {
    const id = idFor(element.getAttribute(reference));
    if (id) element.setAttribute(reference, id);
  }
};

/** Every element of the selector below a part of the page. */
const sweep = (root: Document | Element): void => root.querySelectorAll(selector).forEach((element) => decorateElement(element, Reach.checkout));

/** Decorates what comes into the page. */
const observer = new MutationObserver(
  guard((records: MutationRecord[]) =>
    records.forEach((record) =>
      record.addedNodes.forEach((node) => {
        const element = node as Element;
        if (element.matches) {
          if (element.matches(selector)) decorateElement(element, Reach.checkout);
          sweep(element);
        }
      }),
    ),
  ),
);

/** Decorates the page for the id that is known now, and what comes into it later. */
export const decorateAll = (): void => {
  if (!current()) return;
  sweep(document);
  // Observing again what is observed changes nothing.
  observer.observe(document, { childList: true, subtree: true });
};

/** Decorates what a person reaches for. */
export const decorateTarget = (event: Event): void =>
  event.composedPath().forEach((target) => {
    const element = target as Element;
    if (element.matches && element.matches("[href]," + selector)) decorateElement(element, Reach.sibling);
  });

/** Decorates what the page asks for: the address, or undefined for an element. */
export const decorate = (what: unknown): string | void => (typeof what === "string" ? tagged(what, Reach.any) : decorateElement(what as Element, Reach.any));
