import js from "@eslint/js";
import { globalIgnores } from "eslint/config";
import tseslint from "typescript-eslint";

export default tseslint.config(
  globalIgnores(["dist", "node_modules"]),
  js.configs.recommended,
  {
    files: ["src/**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
      // The type says that the element exists, but noUncheckedIndexedAccess requires the assertion.
      "@typescript-eslint/no-non-null-assertion": "off",
      "no-restricted-globals": ["error", "eval"],
      "no-implied-eval": "error",
      "no-new-func": "error",
      eqeqeq: "error",
    },
  },
  {
    // The verification core also runs in browsers.
    files: ["src/verify/**/*.ts", "src/hashes/**/*.ts"],
    rules: { "no-restricted-imports": ["error", { patterns: ["node:*"] }], "no-restricted-globals": ["error", "eval", "process", "Buffer", "document", "window", "localStorage", "sessionStorage"] },
  },
  {
    files: ["test/**/*.mjs", "build.mjs", "eslint.config.js"],
    languageOptions: { globals: { process: "readonly", console: "readonly", URL: "readonly", crypto: "readonly", fetch: "readonly", setTimeout: "readonly", TextEncoder: "readonly", Buffer: "readonly", Response: "readonly", AbortController: "readonly", DOMException: "readonly", structuredClone: "readonly", performance: "readonly", setImmediate: "readonly" } },
  },
);
