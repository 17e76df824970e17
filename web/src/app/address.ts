import { useCallback } from "react";
import { useLocation, useSearch } from "wouter";

/**
 * Returns a value of the query of the page's address, and a function that changes it. Filters,
 * pages and open tabs are in the address, so that a reload and a shared link show the same. A
 * change removes the parameter in obsolete, which has no meaning with another value.
 */
export function useParameter(name: string, initial = "", obsolete = ""): [string, (value: string) => void] {
  const search = useSearch();
  const [path, navigate] = useLocation();
  const value = new URLSearchParams(search).get(name) ?? initial;
  const set = useCallback(
    (next: string) => {
      const parameters = new URLSearchParams(location.search);
      if (next === initial) parameters.delete(name);
      else parameters.set(name, next);
      parameters.delete(obsolete);
      if (name !== "page") parameters.delete("page"); // another filter begins with its first page
      const query = parameters.toString();
      navigate(query ? `${path}?${query}` : path, { replace: true });
    },
    [initial, name, navigate, obsolete, path],
  );
  return [value, set];
}

/** Returns a function for the address of the page with another value of a parameter of the query. */
export function useAddressWith(name: string): (value: string) => string {
  const search = useSearch();
  const [path] = useLocation();
  return (value) => {
    const parameters = new URLSearchParams(search);
    parameters.set(name, value);
    return `${path}?${parameters.toString()}`;
  };
}

/** Returns the parameters in the fragment of the address. Browsers do not send them to servers. */
export function fragment(): URLSearchParams {
  return new URLSearchParams(location.hash.slice(1));
}
