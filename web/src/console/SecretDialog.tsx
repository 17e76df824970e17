import { Button } from "../kit/controls";
import { Dialog } from "../kit/dialog";
import kit from "../kit/kit.module.css";
import { CopyButton } from "../kit/sharing";
import { useTexts } from "./texts";

/** A secret that is shown once, so only the button closes the dialog. */
export function SecretDialog({ title, hint, secret, onClose }: { title: string; hint: string; secret: string; onClose: () => void }) {
  const { t } = useTexts();
  return (
    <Dialog title={title} open onClose={() => {}}>
      <p>{hint}</p>
      <p className={kit.scroll}>
        <code className={kit.code}>{secret}</code>
      </p>
      <div className={kit.actions}>
        <CopyButton text={secret} />
        <Button kind="primary" onPress={onClose}>
          {t.stored}
        </Button>
      </div>
    </Dialog>
  );
}
