import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useCallback, useState } from "react";

import { unwrap, useApp } from "../../app/app";
import type { Schemas } from "../../app/data";
import { Choice } from "../../kit/choices";
import { Checkbox, TextField } from "../../kit/controls";
import { Badge, Loaded, Notice } from "../../kit/feedback";
import { Form, useSubmit } from "../../kit/form";
import kit from "../../kit/kit.module.css";
import { Card, Facts } from "../../kit/page";
import { useCan } from "../can";
import { useTexts } from "../texts";
import { lines, type Program } from "./data";

type Policy = Schemas["ProgramFraudPolicy"];

const policies = ["off", "observe", "flag", "block"] as const;

/** What happens to suspicious conversions of a programme, and which rules look for them. */
export function FraudPolicy({ program }: { program: Program }) {
  const { api, mode } = useApp();
  const can = useCan();
  const query = useQuery({
    queryKey: [mode, "programs", program.id, "fraud-policy"],
    queryFn: async () => unwrap(await api.GET("/api/v1/programs/{programId}/fraud-policy", { params: { path: { programId: program.id } } })),
  });
  return <Loaded query={query}>{(policy) => (can("PutFraudPolicy") ? <PolicyForm program={program} policy={policy} /> : <PolicyFacts policy={policy} />)}</Loaded>;
}

function PolicyForm({ program, policy }: { program: Program; policy: Policy }) {
  const { api, mode } = useApp();
  const { t } = useTexts();
  const queries = useQueryClient();
  const [saved, setSaved] = useState(false);
  const state = useSubmit(
    useCallback(
      async (values) => {
        setSaved(false);
        const body = {
          policy: policies.find((name) => name === values.policy) ?? "flag",
          disabledRules: policy.rules.map(({ name }) => name).filter((name) => values[`rule.${name}`] === undefined),
          blockedCountries: (values.blockedCountries ?? "").toUpperCase().split(/[\s,;]+/).filter(Boolean),
          couponSites: lines(values.couponSites),
          brandTerms: lines(values.brandTerms),
        };
        const result = unwrap(await api.PUT("/api/v1/programs/{programId}/fraud-policy", { params: { path: { programId: program.id } }, body }));
        setSaved(true);
        queries.setQueryData([mode, "programs", program.id, "fraud-policy"], result);
      },
      [api, mode, policy, program.id, queries],
    ),
  );
  return (
    <Form state={state} label={t.save}>
      <Card title={t.fraudPolicy.title}>
        <p className={kit.muted}>{t.fraudPolicy.about}</p>
        <Choice
          name="policy"
          label={t.fraudPolicy.policy}
          options={policies.map((name): [string, string, string] => [name, t.fraudPolicy.policies[name].name, t.fraudPolicy.policies[name].hint])}
          defaultValue={policy.policy ?? "flag"}
        />
      </Card>
      <Card title={t.fraudPolicy.rules}>
        <p className={kit.muted}>{t.fraudPolicy.rulesHint}</p>
        {policy.rules.map((rule) => (
          <Checkbox key={rule.name} name={`rule.${rule.name}`} defaultSelected={rule.enabled}>
            <Rule rule={rule} />
          </Checkbox>
        ))}
      </Card>
      <Card title={t.fraudPolicy.lists}>
        <TextField name="blockedCountries" label={t.fraudPolicy.countries} hint={t.fraudPolicy.countriesHint} defaultValue={policy.blockedCountries.join(", ")} />
        <TextField name="couponSites" lines label={t.fraudPolicy.sites} hint={t.fraudPolicy.sitesHint} defaultValue={policy.couponSites.join("\n")} />
        <TextField name="brandTerms" lines label={t.fraudPolicy.terms} hint={t.fraudPolicy.termsHint} defaultValue={policy.brandTerms.join("\n")} />
      </Card>
      {saved && <Notice tone="good">{t.fraudPolicy.saved}</Notice>}
    </Form>
  );
}

function Rule({ rule: { name, score, description } }: { rule: Schemas["FraudRule"] }) {
  const { t, f } = useTexts();
  const names: Record<string, string> = t.fraudRules;
  const hints: Record<string, string> = t.fraudPolicy.ruleHints;
  return (
    <>
      {names[name] ?? description} <Badge tone={score >= 50 ? "bad" : "warn"}>{score === 0 ? t.fraudPolicy.review : t.conversions.points(f.number(score))}</Badge>
      {hints[name] && <span className={kit.hint}> {hints[name]}</span>}
    </>
  );
}

function PolicyFacts({ policy }: { policy: Policy }) {
  const { t } = useTexts();
  const names = policy.policy && t.fraudPolicy.policies[policy.policy];
  return (
    <>
      <Card title={t.fraudPolicy.title}>
        {names && (
          <p>
            <strong>{names.name}</strong> {names.hint}
          </p>
        )}
        <Facts
          rows={[
            [t.fraudPolicy.countries, policy.blockedCountries.join(", ")],
            [t.fraudPolicy.sites, policy.couponSites.join(", ")],
            [t.fraudPolicy.terms, policy.brandTerms.join(", ")],
          ]}
        />
      </Card>
      <Card title={t.fraudPolicy.rules}>
        <ul className={kit.list}>
          {policy.rules.map((rule) => (
            <li key={rule.name}>
              <span>
                <Rule rule={rule} />
              </span>
              {!rule.enabled && <Badge>{t.fraudPolicy.disabled}</Badge>}
            </li>
          ))}
        </ul>
      </Card>
    </>
  );
}
