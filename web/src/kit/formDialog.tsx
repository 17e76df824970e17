import { useTexts } from "../app/texts";
import { Button } from "./controls";
import { Dialog } from "./dialog";
import { Form } from "./form";

/** A dialog with a form, which can be left without sending it. */
export function FormDialog({ title, onClose, ...form }: Omit<Parameters<typeof Form>[0], "secondary"> & { title: string; onClose: () => void }) {
  const { t } = useTexts();
  return (
    <Dialog title={title} open onClose={onClose}>
      <Form {...form} secondary={<Button onPress={onClose}>{t.cancel}</Button>} />
    </Dialog>
  );
}
