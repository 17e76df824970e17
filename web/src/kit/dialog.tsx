import type { ReactNode } from "react";
import { Dialog as AriaDialog } from "react-aria-components/Dialog";
import { Heading } from "react-aria-components/Heading";
import { Modal, ModalOverlay } from "react-aria-components/Modal";

import css from "./kit.module.css";

/** A dialog above the page. It closes with Escape. */
export function Dialog({ title, open, onClose, children }: { title: string; open: boolean; onClose: () => void; children: ReactNode }) {
  return (
    <ModalOverlay className={css.overlay} isOpen={open} onOpenChange={(open) => !open && onClose()} isDismissable>
      <Modal className={css.modal}>
        <AriaDialog className={css.dialog}>
          <Heading slot="title" level={2}>
            {title}
          </Heading>
          {children}
        </AriaDialog>
      </Modal>
    </ModalOverlay>
  );
}
