import { render } from "../app/main";
import { console } from "./Console";
import en from "./en";

render("merchant", { en, de: async () => (await import("./de")).default }, console);
