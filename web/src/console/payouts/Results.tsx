import { useMutation } from "@tanstack/react-query";
import { useCallback, useRef, useState } from "react";

import { useApp } from "../../app/app";
import { Button } from "../../kit/controls";
import { Done, Failure } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { saveFile } from "../../kit/sharing";
import { sumsOf } from "../sums";
import { useTexts } from "../texts";
import { allPayouts, type Batch, isOpen, type Payout } from "./data";
import { MarkDialog } from "./MarkDialog";
import { type Result, checkResults, resultTemplate } from "./result";
import { ResultDialog } from "./ResultDialog";

/** The largest result file, in bytes. */
const maxSize = 20 * 1024 * 1024;

/** The results of the transfers: for all open payouts at once, or from a file. Single rows are marked in the list below. */
export function Results({ batch }: { batch: Batch }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const input = useRef<HTMLInputElement>(null);
  const [all, setAll] = useState(false);
  const [done, setDone] = useState<{ text: string; refused: number } | null>(null);
  const [file, setFile] = useState<{ name: string; results: Result[] | null; open: Payout[] } | null>(null);
  const open = batch.byStatus ? batch.byStatus.pending + batch.byStatus.processing : 0;
  const load = useCallback(async () => (await allPayouts(api, batch.id)).filter(isOpen), [api, batch.id]);
  const finish = useCallback((refused: ReadonlyMap<string, string>, text: string) => setDone({ text, refused: refused.size }), []);
  const close = useCallback(() => setAll(false), []);
  const template = useMutation({ mutationFn: async () => saveFile(new Blob([resultTemplate(await load())], { type: "text/csv" }), `results-${batch.id.slice(-10)}.csv`) });
  const check = useMutation({
    mutationFn: async (chosen: File) => {
      setDone(null);
      const payouts = await allPayouts(api, batch.id);
      setFile({ name: chosen.name, results: chosen.size > maxSize ? null : checkResults(await chosen.text(), payouts), open: payouts.filter(isOpen) });
    },
  });
  const notice = done && (
    <Done key={done.text} tone={done.refused > 0 ? "warn" : "good"}>
      {done.text}
    </Done>
  );
  if (open === 0) return notice;
  return (
    <Card title={t.payouts.resultsTitle}>
      <p className={kit.muted}>{t.payouts.resultsHint}</p>
      {notice}
      {check.isError && <Failure error={check.error} />}
      {template.isError && <Failure error={template.error} retry={() => template.mutate()} />}
      <div className={kit.actions}>
        <Button onPress={() => setAll(true)}>{t.payouts.markAll(f.number(open), open === 1)}</Button>
        <Button isPending={check.isPending} onPress={() => input.current?.click()}>
          {t.payouts.upload}
        </Button>
        <Button kind="plain" isPending={template.isPending} onPress={() => template.mutate()}>
          {t.payouts.template}
        </Button>
        <input
          ref={input}
          type="file"
          accept=".csv,text/csv"
          hidden
          aria-label={t.payouts.upload}
          onChange={({ target }) => {
            const chosen = target.files?.[0];
            target.value = "";
            if (chosen) check.mutate(chosen);
          }}
        />
      </div>
      <details>
        <summary>{t.payouts.columnsTitle}</summary>
        <p className={kit.muted}>{t.payouts.columnsHint}</p>
      </details>
      {all && <MarkDialog outcome="paid" count={open} sums={open === batch.payoutCount ? sumsOf(batch.totals, f) : ""} load={load} onDone={finish} onClose={close} />}
      {file && <ResultDialog {...file} onDone={finish} onClose={() => setFile(null)} />}
    </Card>
  );
}
