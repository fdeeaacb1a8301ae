// How the text of a command comes about: from its arguments, of which this file alone makes what a shell reads. Names
// in them are chosen by whoever may create a Role in some namespace, and the text is pasted into the shell of the
// administrator of the host.
import { Document, Scalar, visit } from "yaml";

declare const made: unique symbol;

/** CommandText is the text of a command or a document. No page can make one: a string is none. */
export type CommandText = string & { readonly [made]: true };

/** A command, or a document, that is shown. */
export interface Command {
  /** The tool: "AWS CLI", "kubectl", "eksctl", "CloudFormation". */
  readonly title: string;
  readonly text: CommandText;
}

/** Variable is a variable of the shell as an argument: new Variable("path") is "$path". */
export class Variable {
  constructor(readonly name: string) {
    if (!/^\w+$/.test(name)) throw new Error(`${JSON.stringify(name)} is no name of a variable.`);
  }
}

/** An argument of a command. */
export type Argument = string | Variable;

/** Options of a tool: those that take the next argument as their value, and those that do not. */
interface Options {
  valued: string[];
  switches: string[];
}

// What else begins with a dash is a name, which the tool would take for an option.
const options: Record<string, Options | undefined> = {
  aws: { valued: [], switches: [] },
  coracle: {
    valued: ["-n", "--addon", "--addon-version", "--cluster", "--configuration-values", "--resolve-conflicts"],
    switches: [],
  },
  docker: { valued: ["--username"], switches: ["--password-stdin"] },
  eksctl: { valued: ["-f"], switches: [] },
  kubectl: {
    valued: [
      ...["--context", "--field-selector", "--for", "--image", "--since", "--sort-by", "--tail", "--target"],
      ...["-c", "-l", "-n", "-o"],
    ],
    switches: ["--previous", "--show-managed-fields", "--timestamps", "--watch", "-A", "-f", "-i", "-it", "-p", "-w"],
  },
};

const refusals = {
  option: "# Not shown: a name in this command begins with a dash and would be read as an option",
  character: "# Not shown: a name in this command has a character that no command line can have",
};

const plain = /^[\w@%+:,./-][\w@%+=:,./-]*$/; // zsh replaces a word that begins with =

/** What is not seen, or is a key to a terminal: control characters, directions of writing, spaces of other widths. */
const hidden = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/u;
/** What ends quotes, or is an escape in them, in some shell: fish has both backslashes, PowerShell another quote. */
const special = /['\\\u2018-\u201b]/;
const eachHidden = new RegExp(hidden, "gu");
const unwritable = /\0|\p{Surrogate}/u;

/** IsWritable reports whether a word can be an argument at all. */
export function isWritable(word: string): boolean {
  return !unwritable.test(word);
}

/**
 * Quote returns a word as bash, zsh, ksh and the shell of POSIX of 2024 read it. Others, such as dash, fish and
 * PowerShell, read other characters where some are hidden or special, or refuse the line, and execute nothing of it: no
 * quote and no escape of theirs is in the quotes.
 */
export function quote(word: Argument): string {
  if (word instanceof Variable) return `"$${word.name}"`;
  if (plain.test(word)) return word;
  const [, option = "", value = word] = /^(--[\w-]+=)(.*)$/s.exec(word) ?? [];
  if (option !== "") return option + quote(value);
  if (!hidden.test(word) && !special.test(word)) return `'${word}'`;
  return `$'${Array.from(word, escape).join("")}'`;
}

function escape(character: string): string {
  if (character === "\n") return "\\n";
  if (character === "\t") return "\\t";
  if (character === "\\") return "\\\\";
  if (!special.test(character) && character !== "!" && !hidden.test(character)) return character;
  return [...new TextEncoder().encode(character)].map((byte) => "\\" + byte.toString(8).padStart(3, "0")).join("");
}

function make(title: string, text: string): Command {
  // eslint-disable-next-line no-restricted-syntax -- the one place
  return { title, text: text as CommandText };
}

function optionOf(tool: string, word: string): keyof Options | undefined {
  const [name = ""] = word.split("=", 1);
  if (options[tool]?.switches.includes(word) === true) return "switches";
  return options[tool]?.valued.includes(name) === true ? "valued" : undefined;
}

/** StrayOption returns the first argument that begins with a dash, and is no option of ours nor the value of one. */
function strayOption([tool, ...words]: Argument[]): Argument | undefined {
  let isValue = false;
  for (const word of words) {
    if (!isValue && word === "--") return undefined;
    if (isValue || typeof tool !== "string" || typeof word !== "string") {
      isValue = false;
      continue;
    }
    const option = optionOf(tool, word);
    if (option === undefined && word.startsWith("-") && word !== "-") return word;
    isValue = option === "valued" && !word.includes("=");
  }
  return undefined;
}

/**
 * ShellCommand returns a command of its arguments: shellCommand("kubectl", ["kubectl", "get", "pods", "-n", "web"]).
 * It is on one line, or has a line for each of the groups that follow where it gets long; the groups begin with an
 * option of the source, as in ["--name", name].
 */
export function shellCommand(title: string, words: Argument[], ...groups: Argument[][]): Command {
  if ([...words, ...groups.flat()].some((word) => typeof word === "string" && !isWritable(word))) {
    return make(title, refusals.character);
  }
  if (strayOption(words) !== undefined) return make(title, refusals.option);
  const lines = [words, ...groups].map((group) => group.map(quote).join(" "));
  const line = lines.join(" ");
  return make(title, line.length <= 80 ? line : lines.join(" \\\n  "));
}

/** InTurn returns commands of one tool as a text, one below the other. */
export function inTurn(first: Command, ...rest: Command[]): Command {
  return make(first.title, [first, ...rest].map(({ text }) => text.trimEnd()).join("\n"));
}

/** EachInTurn returns the commands of a list as a text, or none where the list is empty. */
export function eachInTurn([first, ...rest]: Command[]): Command[] {
  return first === undefined ? [] : [inTurn(first, ...rest)];
}

/** Piped returns a command that reads what another prints. */
export function piped(from: Command, into: Command): Command {
  if (isRefused(from)) return { ...from, title: into.title };
  return isRefused(into) ? into : make(into.title, `${from.text} | ${into.text}`);
}

/** Assigned returns a command that keeps what another prints in a variable. */
export function assigned({ name }: Variable, command: Command): Command {
  return isRefused(command) ? command : make(command.title, `${name}=$(${command.text})`);
}

/** WithInput returns a command that reads a document from its standard input. */
export function withInput(command: Command, document: Command): Command {
  if (isRefused(command)) return command;
  const lines = document.text.split("\n");
  let end = "EOF";
  while (lines.includes(end)) end += "_";
  return make(command.title, `${command.text} <<'${end}'\n${document.text}${end}\n`);
}

function isRefused({ text }: Command): boolean {
  return Object.values(refusals).includes(text);
}

/** YamlDocument returns a value as YAML. Members that are not set are left out, and what is hidden is escaped. */
export function yamlDocument(title: string, value: object): Command {
  const document = new Document(JSON.parse(JSON.stringify(value)), { compat: "yaml-1.1" });
  visit(document, {
    Scalar: (_, node) => {
      const isHidden = typeof node.value === "string" && node.value.split("\n").some((line) => hidden.test(line));
      if (isHidden) node.type = Scalar.QUOTE_DOUBLE;
    },
  });
  const lines = document.toString().split("\n");
  return make(title, lines.map((line) => line.replaceAll(eachHidden, escapeYaml)).join("\n"));
}

function escapeYaml(character: string): string {
  const code = (character.codePointAt(0) ?? 0).toString(16);
  return code.length > 4 ? "\\U" + code.padStart(8, "0") : "\\u" + code.padStart(4, "0");
}
