import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import ts from "typescript-eslint";

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
        { property: "innerHTML", message: "What AWS and Kubernetes return is text: render it as React does." },
        { property: "outerHTML", message: "What AWS and Kubernetes return is text: render it as React does." },
      ],
      "no-restricted-syntax": [
        "error",
        {
          selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']",
          message: "What AWS and Kubernetes return is text: render it as React does.",
        },
      ],
      "@typescript-eslint/no-confusing-void-expression": "off",
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
    },
  },
  { files: ["eslint.config.js"], ...ts.configs.disableTypeChecked },
);
