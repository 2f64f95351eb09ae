import js from "@eslint/js";
import hooks from "eslint-plugin-react-hooks";
import { globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

// Texts in a ledger come from other people's models. Nothing may turn a text into markup, a
// style, an address, or a script.
const markup = "Show texts as text: <Line>, <Text>, or a child of an element.";
const properties = ["innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe", "setHTML", "srcdoc", "createContextualFragment", "parseFromString"];

export default tseslint.config(
  globalIgnores(["dist", "node_modules", "src/api/schema.d.ts"]),
  js.configs.recommended,
  {
    files: ["src/**/*.{ts,tsx}"],
    extends: [tseslint.configs.strictTypeChecked],
    plugins: { "react-hooks": hooks },
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      "@typescript-eslint/no-floating-promises": ["error", { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test", "describe", "it"] }] }],
      "no-restricted-properties": ["error", ...properties.map((property) => ({ property, message: markup })),
        { object: "document", property: "write", message: markup }, { object: "document", property: "writeln", message: markup }],
      "no-restricted-globals": ["error", "eval", "DOMParser", "localStorage", "sessionStorage"],
      "no-restricted-syntax": ["error",
        { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: markup },
        { selector: "Property[key.name='dangerouslySetInnerHTML']", message: markup },
        { selector: "JSXAttribute[name.name='srcdoc']", message: markup },
        { selector: "JSXOpeningElement[name.name=/^(iframe|object|embed|script|style)$/]", message: markup }],
      "react-hooks/rules-of-hooks": "error",
      "no-implied-eval": "error",
      "no-new-func": "error",
      eqeqeq: "error",
    },
  },
  { files: ["src/api/kept.ts"], rules: { "no-restricted-globals": "off" } },
  { files: ["build.mjs", "eslint.config.js"], languageOptions: { globals: { process: "readonly", console: "readonly" } } },
);
