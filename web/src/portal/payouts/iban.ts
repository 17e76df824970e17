/** Whether a text has the form of an IBAN: two letters, two digits, and 11 to 30 letters or digits. */
export function looksLikeIban(text: string): boolean {
  return /^[A-Z]{2}\d{2}[A-Z0-9]{11,30}$/.test(compact(text));
}

/** Whether the check digits of an IBAN are right (ISO 13616: the number modulo 97 is 1). */
export function validIban(text: string): boolean {
  const iban = compact(text);
  const digits = [...iban.slice(4), ...iban.slice(0, 4)].map((character) => Number.parseInt(character, 36)).join("");
  let remainder = 0;
  for (const digit of digits) remainder = (remainder * 10 + Number(digit)) % 97;
  return remainder === 1;
}

function compact(text: string): string {
  return text.replace(/\s/g, "").toUpperCase();
}
