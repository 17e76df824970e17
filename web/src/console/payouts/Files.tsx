import { useMutation } from "@tanstack/react-query";
import { useState } from "react";

import { Refusal, unwrap, useApp } from "../../app/app";
import { Select } from "../../kit/choices";
import { Button } from "../../kit/controls";
import { Done, Failure, Notice } from "../../kit/feedback";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { saveFile } from "../../kit/sharing";
import { useTexts } from "../texts";
import type { Batch } from "./data";
import { parseCsv } from "./csv";

const formats = ["generic", "paypal", "wise"] as const;
type Format = (typeof formats)[number];

/** The files for the bank or the payment provider. A large batch has several files of a format. */
export function Files({ batch: { id, byStatus, totals } }: { batch: Batch }) {
  const { api } = useApp();
  const { t, f } = useTexts();
  const [format, setFormat] = useState<Format>("generic");
  const currencies = totals.map(({ currency }) => currency);
  const [currency, setCurrency] = useState(currencies[0] ?? "");
  const file = useMutation({
    mutationFn: async () => {
      let parts = 1;
      let payouts = 0;
      for (let part = 1; part <= parts; part++) {
        const query = { format, part, ...(format !== "generic" && currencies.length > 1 && { currency }) };
        const result = await api.GET("/api/v1/payouts/batches/{batchId}/export", { params: { path: { batchId: id }, query }, parseAs: "blob" });
        const data: Blob = unwrap(result);
        parts = Number(result.response.headers.get("Export-Parts") ?? 1);
        const rows = parseCsv(await data.text()).length - 1;
        payouts += rows;
        const name = ["payouts", id.slice(-10), format, ...(query.currency ? [query.currency] : []), ...(parts > 1 ? [part] : [])].join("-");
        if (rows > 0) saveFile(data, `${name}.csv`);
      }
      if (payouts === 0) throw new Refusal(t.payouts.emptyFile);
      return t.payouts.saved(f.number(payouts), f.number(parts), parts === 1);
    },
  });
  return (
    <Card title={t.payouts.files}>
      <p className={kit.muted}>{t.payouts.filesHint}</p>
      {byStatus && byStatus.pending > 0 && <Notice tone="warn">{t.payouts.processFirst}</Notice>}
      {file.isError && <Failure error={file.error} retry={() => file.mutate()} />}
      {file.isSuccess && <Done key={file.submittedAt}>{file.data}</Done>}
      <div className={kit.filters}>
        <Select
          label={t.payouts.format}
          options={formats.map((format): [string, string] => [format, t.payouts.formats[format]])}
          value={format}
          onChange={(key) => setFormat(key as Format)}
          hint={t.payouts.formatHints[format]}
        />
        {format !== "generic" && currencies.length > 1 && (
          <Select label={t.payouts.currency} options={currencies.map((currency): [string, string] => [currency, currency])} value={currency} onChange={(key) => setCurrency(String(key))} />
        )}
      </div>
      <div className={kit.actions}>
        <Button kind="primary" isPending={file.isPending} onPress={() => file.mutate()}>
          {t.payouts.download}
        </Button>
      </div>
    </Card>
  );
}
