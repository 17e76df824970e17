/** Formats of numbers, amounts and times in a language. */
export class Format {
  constructor(
    readonly language: string,
    /** The IANA time zone of all times. Default: that of the browser. */
    readonly timeZone: string = Intl.DateTimeFormat().resolvedOptions().timeZone,
  ) {}

  number(value: number): string {
    return new Intl.NumberFormat(this.language).format(value);
  }

  /** An amount in minor units of its currency, for example 980 cents as $9.80. */
  money(minorUnits: number, currency: string): string {
    const digits = exponent(currency);
    return new Intl.NumberFormat(this.language, {
      style: "currency",
      currency,
      minimumFractionDigits: digits,
      maximumFractionDigits: digits,
    }).format(decimal(minorUnits, digits) as unknown as number);
  }

  /** A rate in basis points, for example 2000 as 20%. */
  percent(basisPoints: number): string {
    return new Intl.NumberFormat(this.language, { style: "percent", maximumFractionDigits: 2 }).format(basisPoints / 10_000);
  }

  /** A change in basis points, for example 1250 as +12.5%. */
  change(basisPoints: number): string {
    const options = { style: "percent", maximumFractionDigits: 1, signDisplay: "exceptZero" } as const;
    return new Intl.NumberFormat(this.language, options).format(basisPoints / 10_000);
  }

  date(time: string): string {
    return new Intl.DateTimeFormat(this.language, { dateStyle: "medium", timeZone: this.timeZone }).format(new Date(time));
  }

  /** The day of a time as YYYY-MM-DD. */
  isoDay(time: Date): string {
    return new Intl.DateTimeFormat("sv", { timeZone: this.timeZone }).format(time);
  }

  /** A day without its year, for the axis of a chart. */
  day(time: string): string {
    return new Intl.DateTimeFormat(this.language, { day: "numeric", month: "short", timeZone: this.timeZone }).format(new Date(time));
  }

  /** The month of a time, with its year. */
  month(time: string): string {
    return new Intl.DateTimeFormat(this.language, { month: "short", year: "numeric", timeZone: this.timeZone }).format(new Date(time));
  }

  /** A time to the minute, with its zone. */
  time(time: string): string {
    return new Intl.DateTimeFormat(this.language, {
      year: "numeric",
      month: "short",
      day: "numeric",
      hour: "2-digit",
      minute: "2-digit",
      timeZoneName: "short",
      timeZone: this.timeZone,
    }).format(new Date(time));
  }

  /** The name of a country by its code (ISO 3166). */
  country(code: string): string {
    if (!/^[A-Z]{2}$/.test(code)) return code;
    return new Intl.DisplayNames(this.language, { type: "region" }).of(code) ?? code;
  }

  /** The time since or until a time, for example "2 days ago". */
  relative(time: string, now = Date.now()): string {
    const seconds = (new Date(time).getTime() - now) / 1000;
    const steps: [Intl.RelativeTimeFormatUnit, number][] = [["day", 86_400], ["hour", 3_600], ["minute", 60]];
    const format = new Intl.RelativeTimeFormat(this.language, { numeric: "auto" });
    for (const [unit, length] of steps) {
      if (Math.abs(seconds) >= length) return format.format(Math.trunc(seconds / length), unit);
    }
    return format.format(0, "minute");
  }
}

/** Currencies whose minor unit is not a hundredth (ISO 4217), as package affiliate has them. */
const exponents: Record<string, number> = {
  ...digits(0, "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"),
  ...digits(3, "BHD IQD JOD KWD LYD OMR TND"),
  ...digits(4, "CLF UYW"),
};

function digits(count: number, currencies: string): Record<string, number> {
  return Object.fromEntries(currencies.split(" ").map((currency) => [currency, count]));
}

/** The number of decimals of a currency. */
export function exponent(currency: string): number {
  return exponents[currency] ?? 2;
}

/**
 * The amount in minor units that a user has typed, with a point or a comma before the decimals. It
 * is null if the text is no amount or has more decimals than the currency.
 */
export function minorUnits(text: string, digits: number): number | null {
  const [, sign = "", whole, decimals = ""] = /^([-−]?)(\d{1,13})(?:[.,](\d+))?$/.exec(text.trim()) ?? [];
  if (whole === undefined || decimals.length > digits) return null;
  return Number(whole + decimals.padEnd(digits, "0")) * (sign ? -1 : 1);
}

/** The decimal form of an amount in minor units. It is a text, because a division could round. */
export function decimal(minorUnits: number, digits: number): string {
  const text = String(Math.abs(minorUnits)).padStart(digits + 1, "0");
  const whole = text.slice(0, text.length - digits);
  return (minorUnits < 0 ? "-" : "") + (digits ? `${whole}.${text.slice(-digits)}` : whole);
}
