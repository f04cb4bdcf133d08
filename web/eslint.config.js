// What the type checker does not see: hooks that are called conditionally, promises that nobody awaits, leftovers.
import hooks from "eslint-plugin-react-hooks";
import { defineConfig } from "eslint/config";
import typescript from "typescript-eslint";

export default defineConfig(
  { ignores: ["node_modules", "dist"] },
  ...typescript.configs.recommendedTypeChecked.map((config) => ({ ...config, files: ["src/**/*.{ts,tsx}", "tests/**/*.ts"] })),
  {
    files: ["src/**/*.{ts,tsx}", "tests/**/*.ts"],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { "react-hooks": hooks },
    linterOptions: { reportUnusedDisableDirectives: "error" },
    rules: {
      "react-hooks/rules-of-hooks": "error",
      "no-eval": "error",
      "no-implied-eval": "off",
      "no-console": "error",
      eqeqeq: "error",
      // values of tuples and of forms are texts and numbers
      "@typescript-eslint/no-base-to-string": "off",
      // `condition && act()` is how the pages write a handler of one line
      "@typescript-eslint/no-unused-expressions": ["error", { allowShortCircuit: true, allowTernary: true }],
      "@typescript-eslint/no-misused-promises": ["error", { checksVoidReturn: { attributes: false } }],
    },
  },
  // a page must never make markup of text
  {
    files: ["src/**/*.tsx"],
    rules: { "no-restricted-syntax": ["error", { selector: "JSXAttribute[name.name='dangerouslySetInnerHTML']", message: "Text stays text." }] },
  },
);
