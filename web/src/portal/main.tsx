import { render } from "../app/main";
import en from "./en";
import { portal } from "./Portal";

render("partner", { en, de: async () => (await import("./de")).default }, portal);
