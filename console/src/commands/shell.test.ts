import { execFileSync, spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { analysisCommand } from "../pages/map/reachability";
import { mapCommands } from "../pages/map/facts";
import { pullCommands } from "../pages/registry/images";
import { changesCommand, objectCommands } from "../pages/resources/commands";
import { awsCommand, cloudFormationResource, coracleCommand, kubectlCommand } from "./command";
import { eksctlCommand, eksctlFile } from "./eksctl";
import { assigned, type Command, inTurn, piped, quote, shellCommand, Variable, withInput, yamlDocument } from "./shell";

const tools = ["aws", "coracle", "docker", "eksctl", "kubectl"];

/** Run returns what a shell gives the tools, a command in each line. It fails where the shell executes a name. */
function run([program = "", ...args]: string[], text: string): string[][] {
  const functions = tools.map((t) => `${t}() { printf '%s\\0' ${t} "$@" | od -An -v -tx1 | tr -d ' \\n'; echo; }\n`);
  const script = `hacked() { echo hacked >&2; }\n${functions.join("")}${text}`;
  const { stdout, stderr } = spawnSync(program, [...args, "-c", script], {
    encoding: "utf8",
    env: { PATH: process.env.PATH, LC_ALL: "C.UTF-8" },
    stdio: ["ignore", "pipe", "pipe"],
  });
  expect(stderr).toBe("");
  return stdout
    .trim()
    .split("\n")
    .map((line) => Buffer.from(line, "hex").toString().split("\0").slice(0, -1));
}

const controls = Array.from({ length: 31 }, (_, i) => String.fromCharCode(i + 1)).join("");
const hostile = [
  "view $(hacked)",
  "view;hacked;",
  "`hacked`",
  "it's; hacked '",
  "'; hacked; '",
  "\\'; hacked; '",
  "a\n'; hacked #",
  "a\nhacked\n",
  "a\nEOF\nhacked\n",
  "\x15hacked\r",
  "\x1b[201~hacked\n",
  "a\x7f\x9b31m\u0085\u2028b",
  "user\u202ednammoc\u202c\u200b\u{e0041}\u00a0",
  "a' \x01 \\",
  "!! \x01 !$",
  "a && hacked || hacked & hacked > /tmp/x",
  "# hacked",
  "=hacked",
  "~root",
  "a*?[b]{c,d}",
  "$HOME ${HOME} \"x\"",
  controls,
  "ü 語 😀",
  "",
];

test.each(hostile)("%j is one word of every shell, and executes nothing", (name) => {
  const command = coracleCommand("fields", `roles/${name}`, "-n", name, "--cluster", name);
  const words = ["coracle", "fields", `roles/${name}`, "-n", name, "--cluster", name];
  expect(run(["bash"], command.text)).toEqual([words]);
  // eslint-disable-next-line no-control-regex -- what a terminal takes as a key
  expect(command.text).not.toMatch(/[\x00-\x1f\x7f-\x9f\u202e\u2028]/);
  for (const shell of [["dash"], ["busybox", "sh"], ["zsh"], ["ksh"]]) {
    if (!existsSync(`/usr/bin/${shell[0] ?? ""}`)) continue;
    const [got, ...others] = run(shell, command.text);
    expect([got?.length, others], shell[0]).toEqual([words.length, []]);
  }
});

test.each(hostile)("%j executes nothing in the commands of pages", (name) => {
  const object = { resource: { group: name, version: "v1", name, namespaced: true }, namespace: name, name };
  const question = { source: { id: name, ip: name }, destination: { id: name, ip: name }, protocol: "tcp", port: 1 };
  const commands = [
    ...objectCommands(name, object),
    changesCommand(name, object),
    pullCommands(`${name}/${name}`, { imageTags: [name] }, name),
    analysisCommand(question as Parameters<typeof analysisCommand>[0], name),
    ...mapCommands(name, [name, name]),
    awsCommand("iam", "get-role", { RoleName: name, List: [name, name], Map: { [name]: name } }, name),
    eksctlCommand("delete addon", { name, list: [name, name], preserve: true }, name),
    eksctlFile("create addon", name, name, { addons: [{ name, [name]: name }] }),
  ];
  const text = commands.map((command) => command.text).join("\n");
  run(["bash"], text);
  // eslint-disable-next-line no-control-regex -- what a terminal takes as a key
  expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]/);
});

test.each(hostile)("%j is a value of YAML", (name) => {
  const { text } = cloudFormationResource("Role", "AWS::IAM::Role", { Name: name, Tags: { [`k${name}`]: name } });
  // eslint-disable-next-line no-control-regex -- what an editor takes as a key
  expect(text).not.toMatch(/[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]/);
  expect(parse(text)).toEqual({
    Resources: { Role: { Type: "AWS::IAM::Role", Properties: { Name: name, Tags: { [`k${name}`]: name } } } },
  });
});

test("a document cannot end its input", () => {
  const document = yamlDocument("eksctl", { EOF: ["EOF"], text: "a\nEOF\nb" });
  const { text } = withInput(shellCommand("eksctl", ["eksctl", "create", "cluster", "-f", "-"]), document);
  const printed = execFileSync("bash", ["-c", `eksctl() { cat; }\n${text}`], {
    encoding: "utf8",
    stdio: ["ignore", "pipe", "inherit"],
  });
  expect(printed).toBe(document.text);
});

test.each([
  ["web", "web"],
  ["", "''"],
  ["two words", "'two words'"],
  ["it's", `$'it\\047s'`],
  ["\\'; hacked; '", `$'\\\\\\047; hacked; \\047'`],
  ["$(rm -rf /)", "'$(rm -rf /)'"],
  ["arn:aws:iam::111122223333:role/x", "arn:aws:iam::111122223333:role/x"],
  ["--list=a b", "--list='a b'"],
  ["a\nb\x15'", `$'a\\nb\\025\\047'`],
])("%s is quoted", (word, quoted) => {
  expect(quote(word)).toBe(quoted);
});

test.each([
  ["--server=https://evil.example", "-n", "x"],
  ["-sevil", "-n", "x"],
  ["get", "--kubeconfig", "x"],
  ["get", "-A", "--as=root"],
])("%s %s %s is not shown", (...words) => {
  expect(kubectlCommand("web", ...words).text).toMatch(/^# Not shown: [a-z ]+$/);
});

test("values of options, and what follows two dashes, may begin with a dash", () => {
  expect(kubectlCommand("-a", "exec", "-it", "pod", "-n", "-b", "--", "-c").text).toBe(
    "kubectl --context -a exec -it pod -n -b -- -c",
  );
});

test("a name that no command line can have is not shown", () => {
  for (const name of ["a\0b", "a\ud800b"]) {
    const refused = coracleCommand("audit", name);
    expect(refused.text).toMatch(/^# Not shown: [a-z ]+$/);
    expect(piped(refused, coracleCommand("audit")).text).toBe(refused.text);
    expect(assigned(new Variable("x"), refused).text).toBe(refused.text);
    expect(withInput(refused, yamlDocument("", {})).text).toBe(refused.text);
    expect(inTurn(coracleCommand("audit"), refused).text).toBe(`coracle audit\n${refused.text}`);
  }
});

test("a page can make no command of a string", () => {
  // @ts-expect-error A string is no CommandText.
  const literal: Command = { title: "coracle", text: "coracle audit" };
  // @ts-expect-error What is joined is a string.
  const joined: Command = { title: "coracle", text: `${kubectlCommand("web", "get", "pods").text}; hacked` };
  expect([literal, joined]).toHaveLength(2);
  expect(() => new Variable("x; hacked")).toThrow();
});
