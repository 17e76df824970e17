import { useEffect } from "react";

import { useDefaultLanguage } from "../../app/texts";
import type { Branding } from "../data";

/**
 * Gives the page the accent colour and the language of a merchant. Returns whether the texts are
 * in the language that the page is going to have.
 */
export function useBranding(branding: Branding | null): boolean {
  const palette = branding?.palette;
  useEffect(() => {
    const colours = {
      "--accent-light": palette?.light?.color,
      "--accent-dark": palette?.dark?.color,
      "--on-accent-light": palette?.light?.textColor,
      "--on-accent-dark": palette?.dark?.textColor,
      // An accent colour is not always readable as the colour of a text.
      "--link": palette && "var(--text)",
    };
    const { style } = document.documentElement;
    for (const [name, value] of Object.entries(colours)) if (value) style.setProperty(name, value);
    return () => {
      for (const name of Object.keys(colours)) style.removeProperty(name);
    };
  }, [palette]);
  return useDefaultLanguage(branding?.locale);
}

/** The address of the logo on the host of the page, which is the only one that pages may load from. */
export function logoOf(branding: Branding): string | null {
  const address = branding.logoUrl;
  return address && address.slice(Math.max(0, address.indexOf("/api/v1/")));
}
