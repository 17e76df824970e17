import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { type Mode, unwrap, useApp } from "../app/app";
import type { Schemas } from "../app/data";
import type { Format } from "../i18n/format";
import type { Texts } from "./texts";

// The data that several areas of the portal use. The key of each query begins with the mode.

export type Program = Schemas["PartnerProgram"];
export type PortalProgram = Schemas["PortalProgram"];
export type Branding = Schemas["PortalBranding"];
export type Commission = Schemas["PartnerCommission"];
export type Payout = Schemas["PartnerPayout"];
export type PartnerLink = Schemas["Link"];

/** What a programme of the partner and the public page of a programme have in common. */
export type Offer = Pick<PortalProgram, keyof PortalProgram & keyof Program> & {
  /** The partner's own rate, which replaces that of the programme. */
  participation?: { commissionRate: Schemas["CommissionRate"] | null } | null;
};

/** A programme as the partner sees it, in the mode of the page or in another one. */
export function useProgram(id: string, other?: Mode) {
  const app = useApp();
  const mode = other ?? app.mode;
  return useQuery({
    queryKey: [mode, "programs", id],
    queryFn: async () => {
      const options = { params: { path: { programId: id } }, headers: { "X-Mode": mode } };
      return unwrap(await app.api.GET("/api/v1/partner/programs/{programId}", options));
    },
  });
}

/**
 * Returns a sentence about what the partner has done in a programme, and a function that loads the
 * programmes again and then sets this sentence.
 */
export function useProgramChanges(): [done: string, changed: (text: string) => Promise<void>] {
  const { mode } = useApp();
  const queries = useQueryClient();
  const [done, setDone] = useState("");
  const changed = useCallback(
    async (text: string) => {
      await Promise.all(["portal", "programs"].map((list) => queries.invalidateQueries({ queryKey: [mode, list] })));
      setDone(text);
    },
    [mode, queries],
  );
  return [done, changed];
}

/** The programmes in which the partner takes part: the first hundred. */
export function usePrograms() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "programs", "mine"],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/programs", { params: { query: { scope: "mine", pageSize: 100 } } })).data,
  });
}

export function useProfile() {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "profile"],
    queryFn: async () => unwrap(await api.GET("/api/v1/partner/profile")),
  });
}

/** The rate of a programme for this partner, in a few words. */
export function rateOf(program: Offer, t: Texts, f: Format): string {
  const own = program.participation?.commissionRate;
  const rules = program.commissionRules;
  const percentage = own ? own.percentage : rules?.percentage;
  const flat = own ? own.flatAmountCents : rules?.flatAmountCents;
  if (percentage !== null && percentage !== undefined) return t.rate.percent(f.percent(percentage * 100));
  return t.rate.flat(f.money(flat ?? 0, program.currency));
}
