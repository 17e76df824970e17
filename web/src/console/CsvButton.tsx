import { useMutation } from "@tanstack/react-query";

import { unwrap, useApp } from "../app/app";
import { Button } from "../kit/controls";
import { Failure } from "../kit/feedback";
import { download } from "../kit/sharing";
import { useTexts } from "./texts";

/** The button that saves a list as a file. */
export function CsvButton({ save }: { save: () => Promise<void> }) {
  const { t } = useTexts();
  const csv = useMutation({ mutationFn: save });
  return (
    <>
      {csv.isError && <Failure error={csv.error} retry={() => csv.mutate()} />}
      <Button isPending={csv.isPending} onPress={() => csv.mutate()}>
        {t.filter.csv}
      </Button>
    </>
  );
}

/**
 * The button that saves the file of an export. The browser loads the file with a ticket and not
 * through the page, so that a large file needs no memory.
 */
export function ExportButton({ address, query }: { address: string; query: Record<string, string | boolean> }) {
  const { api } = useApp();
  const save = async () => {
    const { ticket } = unwrap(await api.POST("/api/v1/download-tickets"));
    const values = Object.entries({ ...query, ticket }).map(([name, value]) => [name, String(value)]);
    download(`${address}?${new URLSearchParams(values)}`, "");
  };
  return <CsvButton save={save} />;
}
