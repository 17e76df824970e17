import type { ReactNode } from "react";
import { Dialog as AriaDialog } from "react-aria-components/Dialog";
import { Heading } from "react-aria-components/Heading";
import { Modal, ModalOverlay } from "react-aria-components/Modal";

import { useTexts } from "../app/texts";
import { Button } from "./controls";
import css from "./kit.module.css";

/** A dialog above the page, or at its side for the details of a record. It closes with Escape. */
export function Dialog({
  title,
  open,
  onClose,
  side = false,
  children,
}: {
  title: string;
  open: boolean;
  onClose: () => void;
  side?: boolean;
  children: ReactNode;
}) {
  const { t } = useTexts();
  return (
    <ModalOverlay className={`${css.overlay} ${side ? css.atSide : ""}`} isOpen={open} onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal className={css.modal}>
        <AriaDialog className={css.dialog}>
          <div className={css.cardHead}>
            <Heading slot="title" level={2}>
              {title}
            </Heading>
            {side && (
              <Button small onPress={onClose}>
                {t.close}
              </Button>
            )}
          </div>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
