import { useTextsOf } from "../app/texts";
import type en from "./en";

export type Texts = typeof en;

/** Returns the texts of the console in the user's language, and the formats of the language. */
export const useTexts = useTextsOf<Texts>;
