import { useMutation } from "@tanstack/react-query";

import { Button } from "../kit/controls";
import { Failure } from "../kit/feedback";
import { saveFile } from "../kit/sharing";
import { useTexts } from "./texts";

/** The button that saves a list as a file. */
export function CsvButton({ file, load }: { file: string; load: () => Promise<Blob> }) {
  const { t } = useTexts();
  const csv = useMutation({ mutationFn: async () => saveFile(await load(), file) });
  return (
    <>
      {csv.isError && <Failure error={csv.error} />}
      <Button isPending={csv.isPending} onPress={() => csv.mutate()}>
        {t.filter.csv}
      </Button>
    </>
  );
}
