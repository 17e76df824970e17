import type { Texts } from "../app/texts";
import en from "./en";

const de: Texts = { ...en };

export default de;
