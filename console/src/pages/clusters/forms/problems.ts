// What is wrong with what a form holds: before it is sent, and when AWS refuses it.
import { describeError } from "../../../aws/errors";

/** The members of a form that are wrong, and why. */
export type Problems<F> = Partial<Record<keyof F, string>>;

/** The words by which AWS's messages are known to be about a member of a form. The first that match count. */
export type Subjects<F> = [RegExp, keyof F][];

/** SubjectOf returns the member of a form that an error of AWS is about; undefined where that cannot be told. */
export function subjectOf<F>(subjects: Subjects<F>, error: unknown): keyof F | undefined {
  if (error === null || error === undefined) return undefined;
  const { message } = describeError(error);
  return subjects.find(([words]) => words.test(message))?.[1];
}

/** WholeNumber returns the number that a text is; undefined for a text that is no whole number of 0 or more. */
export function wholeNumber(text: string): number | undefined {
  return /^\d{1,9}$/.test(text.trim()) ? Number(text) : undefined;
}

/** A key with its value: a label, or a tag. */
export interface Pair {
  key: string;
  value: string;
}

/** What is wrong with the two parts of a pair. */
export type PairProblem = Partial<Pair>;

const namePattern = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const prefixPattern = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;
const characters =
  "Use up to 63 alphanumeric characters, '-', '_' or '.'; start and end with an alphanumeric character.";

/** LabelKeyProblem says what is wrong with the key of a label or a taint. */
export function labelKeyProblem(key: string): string | undefined {
  if (key === "") return "Enter a key.";
  const [name = "", prefix, ...more] = key.split("/").reverse();
  if (more.length > 0) return "A key has one prefix at most, which ends with a slash.";
  if (prefix !== undefined && (prefix.length > 253 || !prefixPattern.test(prefix))) {
    return "The prefix of a key is a DNS name in lowercase.";
  }
  return name.length > 63 || !namePattern.test(name) ? characters : undefined;
}

/** LabelValueProblem says what is wrong with the value of a label or a taint. */
export function labelValueProblem(value: string): string | undefined {
  return value !== "" && (value.length > 63 || !namePattern.test(value)) ? characters : undefined;
}

/** LabelProblems says what is wrong with each label of nodes. */
export function labelProblems(labels: Pair[]): PairProblem[] {
  return labels.map(({ key, value }, i) => ({
    key:
      labelKeyProblem(key) ??
      (/(^|\.)eks\.amazonaws\.com\//.test(key)
        ? "Keys with the prefix eks.amazonaws.com/ are reserved."
        : duplicate(labels, i)),
    value: value === "" ? "Enter a value." : labelValueProblem(value),
  }));
}

/** TagProblems says what is wrong with each tag. */
export function tagProblems(tags: Pair[]): PairProblem[] {
  return tags.map(({ key, value }, i) => ({
    key:
      key === ""
        ? "Enter a key."
        : key.length > 128
          ? "A key has up to 128 characters."
          : /^aws:/i.test(key)
            ? "Keys that begin with aws: are reserved."
            : duplicate(tags, i),
    value: value.length > 256 ? "A value has up to 256 characters." : undefined,
  }));
}

function duplicate(pairs: Pair[], i: number): string | undefined {
  return pairs.findIndex(({ key }) => key === pairs[i]?.key) < i ? "Keys are unique." : undefined;
}

/** AnyProblem returns the text for a list in which a member is wrong, or which is too long. */
export function anyProblem(problems: object[], most: number, what: string): string | undefined {
  if (problems.length > most) return `Enter up to ${most} ${what}.`;
  const wrong = problems.some((problem) => Object.values(problem).some((text) => text !== undefined));
  return wrong ? `Correct the ${what}.` : undefined;
}

/** RecordOf returns pairs as requests have them; undefined for none. */
export function recordOf(pairs: Pair[]): Record<string, string> | undefined {
  return pairs.length === 0 ? undefined : Object.fromEntries(pairs.map(({ key, value }) => [key, value]));
}

/** PairsOf returns what AWS describes as a record, sorted by key. */
export function pairsOf(record: Record<string, string> | undefined): Pair[] {
  return Object.entries(record ?? {})
    .map(([key, value]) => ({ key, value }))
    .sort((a, b) => a.key.localeCompare(b.key, "en"));
}
