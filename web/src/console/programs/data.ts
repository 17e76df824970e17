import { useQuery } from "@tanstack/react-query";
import { useCallback } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import type { Format } from "../../i18n/format";
import { liveInterval, useReloadOf } from "../data";
import { rateText } from "../rate";
import type { Texts } from "../texts";

export type Program = Schemas["Program"];

export function useProgram(id: string) {
  const { api, mode } = useApp();
  return useQuery({
    queryKey: [mode, "programs", id, "one"],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs/{programId}", { params: { path: { programId: id } } })),
    refetchInterval: liveInterval,
  });
}

/** Returns a function that loads again what a change of a programme changes. */
export function useReload(): () => Promise<void> {
  return useReloadOf("programs", "set-up");
}

/** Returns a function that changes the given fields of a programme. */
export function useUpdate(program: Program): (body: Schemas["UpdateProgramRequest"]) => Promise<void> {
  const { api } = useApp();
  const reload = useReload();
  return useCallback(
    async (body) => {
      unwrap(await api.PATCH("/api/v1/programs/{programId}", { params: { path: { programId: program.id } }, body }));
      await reload();
    },
    [api, program.id, reload],
  );
}

/** The rate of a programme in a few words. */
export function rateOf({ commissionRules: rules, currency }: Program, t: Texts, f: Format): string {
  if (!rules) return "";
  const { recurring, laterPercentage } = rules;
  const say = t.programs.rate;
  const words = [say.each(rateText(rules, currency, f))];
  if (recurring?.enabled === false) words.push(say.first);
  else {
    if (laterPercentage !== null) words.push(say.later(f.percent(laterPercentage * 100)));
    if (recurring?.maxMonths) words.push(say.months(recurring.maxMonths));
  }
  return words.join(", ");
}

/** The items of a text that has one in each line. */
export function lines(text: string | undefined): string[] {
  return (text ?? "").split(/\n/).map((line) => line.trim()).filter(Boolean);
}
