import { useCallback, useState } from "react";

import type { Schemas } from "../../app/data";
import { Select } from "../../kit/choices";
import { Button, Checkbox, TextField } from "../../kit/controls";
import { Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card } from "../../kit/page";
import { useTexts } from "../texts";
import { lines, type Program, useUpdate } from "./data";
import { keyOf } from "./questionKey";

type Question = Schemas["ApplicationQuestion"];

const types = ["text", "long_text", "url", "select", "checkbox"] as const;
const most = 20;

/** The questions to partners who apply. */
export function Questions({ program }: { program: Program }) {
  const { t } = useTexts();
  const update = useUpdate(program);
  const [rows, setRows] = useState(() => program.applicationQuestions.map((question, id) => ({ id, question })));
  const [saved, setSaved] = useState(false);
  const state = useSubmit(
    useCallback(
      async (values) => {
        setSaved(false);
        // The answers have the key of their question, so a question keeps its key.
        const taken = new Set(rows.map(({ question }) => question.key).filter(Boolean));
        const applicationQuestions = rows.map(({ question }, index) => {
          const path = `applicationQuestions[${index}]`;
          const label = values[`${path}.label`] ?? "";
          const key = question.key || keyOf(label, taken);
          taken.add(key);
          const type = types.find((type) => type === values[`${path}.type`]) ?? "text";
          return { key, label, type, required: values[`${path}.required`] !== undefined, options: type === "select" ? lines(values[`${path}.options`]) : [] };
        });
        await update({ applicationQuestions });
        setRows(applicationQuestions.map((question, index) => ({ id: rows[index]?.id ?? index, question })));
        setSaved(true);
      },
      [rows, update],
    ),
  );
  const add = () => setRows([...rows, { id: Math.max(-1, ...rows.map(({ id }) => id)) + 1, question: { key: "", label: "", type: "text", required: false, options: [] } }]);
  const move = (from: number, to: number) => {
    const next = [...rows];
    next.splice(to, 0, ...next.splice(from, 1));
    setRows(next);
  };
  return (
    <Card title={t.page.questions}>
      <p className={kit.muted}>{t.page.questionsHint}</p>
      <Form state={state} label={t.save}>
        {rows.map(({ id, question }, index) => (
          <QuestionRow
            key={id}
            index={index}
            question={question}
            onUp={index > 0 ? () => move(index, index - 1) : undefined}
            onRemove={() => setRows(rows.filter((row) => row.id !== id))}
          />
        ))}
        {rows.length < most && (
          <span>
            <Button small onPress={add}>
              {t.page.addQuestion}
            </Button>
          </span>
        )}
        {saved && <Notice tone="good">{t.saved}</Notice>}
      </Form>
    </Card>
  );
}

function QuestionRow({ index, question, onUp, onRemove }: { index: number; question: Question; onUp: (() => void) | undefined; onRemove: () => void }) {
  const { t, f } = useTexts();
  const [type, setType] = useState<string>(question.type ?? "text");
  const path = `applicationQuestions[${index}]`;
  const name = t.page.question(f.number(index + 1));
  return (
    <fieldset className={kit.group}>
      <legend>{name}</legend>
      <TextField name={`${path}.label`} label={t.page.questionText} defaultValue={question.label} maxLength={200} isRequired />
      <Select name={`${path}.type`} label={t.page.answer} options={types.map((type): [string, string] => [type, t.page.answers[type]])} value={type} onChange={(key) => setType(String(key))} />
      {type === "select" && <TextField name={`${path}.options`} lines label={t.page.options} hint={t.page.optionsHint} defaultValue={question.options.join("\n")} isRequired />}
      <Checkbox name={`${path}.required`} defaultSelected={question.required}>
        {type === "checkbox" ? t.page.mustAgree : t.page.mustAnswer}
      </Checkbox>
      <span className={kit.actions}>
        {onUp && (
          <Button small onPress={onUp} aria-label={`${t.page.up}: ${name}`}>
            {t.page.up}
          </Button>
        )}
        <Button small onPress={onRemove} aria-label={`${t.links.remove}: ${name}`}>
          {t.links.remove}
        </Button>
      </span>
    </fieldset>
  );
}
