import { useTexts } from "../texts";

/** Returns a function that says in words what an action such as program.update did. Unknown words stay as they are. */
export function useActionText(): (action: string) => string {
  const { t } = useTexts();
  const nouns: Record<string, string> = t.logs.audit.nouns;
  const verbs: Record<string, string> = t.logs.audit.verbs;
  return (action) => {
    const [noun = "", verb = ""] = action.split(".");
    return t.logs.audit.action(nouns[noun] ?? noun, verbs[verb] ?? verb);
  };
}
