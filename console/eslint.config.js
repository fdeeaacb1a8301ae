import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

const rendered = "What AWS and Kubernetes return is text: render it as React does.";
const tool = "(aws|coracle|docker|eksctl|kubectl) [a-z]";
const joined = "Commands are made of their arguments, by src/commands: a name in a text could be a command.";

export default ts.config(
  { ignores: ["node_modules"] },
  js.configs.recommended,
  ...ts.configs.strictTypeChecked,
  hooks.configs.flat["recommended-latest"],
  {
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "max-len": ["error", { code: 120, ignoreUrls: true }],
      "max-lines": ["error", 600],
      "no-restricted-properties": [
        "error",
        { property: "innerHTML", message: rendered },
        { property: "outerHTML", message: rendered },
      ],
      "no-restricted-syntax": [
        "error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: rendered },
        { selector: "TSAsExpression > TSTypeReference[typeName.name=/^Command(Text)?$/]", message: joined },
        { selector: `TemplateLiteral[expressions.0] > TemplateElement[value.raw=/^(# )?${tool}/]`, message: joined },
        { selector: `ArrayExpression > Literal:first-child[value=/^${tool}/]`, message: joined },
        { selector: `BinaryExpression[operator='+'] > Literal[value=/^${tool}/]`, message: joined },
        { selector: `JSXText[value=/(^|\\n) *${tool}/] ~ JSXExpressionContainer`, message: joined },
      ],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  {
    files: ["src/app/**", "src/aws/**", "src/components/**", "src/pages/**", "src/session/**"],
    rules: { "no-restricted-imports": ["error", { patterns: [{ group: ["**/commands/shell"], message: joined }] }] },
  },
  { files: ["**/*.test.ts"], rules: { "no-restricted-syntax": "off" } },
  { files: ["eslint.config.js"], ...ts.configs.disableTypeChecked },
);
