#!/usr/bin/env node
// npx tallystick eval FILE... imports each file, which calls Eval; the status is 4 if an
// Eval did not pass.
import path from "node:path";
import { pathToFileURL } from "node:url";

const [command, ...files] = process.argv.slice(2);
if (command !== "eval" || files.length === 0) {
  console.error("usage: tallystick eval FILE...");
  process.exit(2);
}
for (const file of files) {
  try {
    await import(pathToFileURL(path.resolve(file)).href);
  } catch (e) {
    console.error(e?.code === "ERR_UNKNOWN_FILE_EXTENSION"
      ? `${file}: this node does not read TypeScript; node 22.18 and later do, or install tsx and run: node --import tsx ${file}`
      : e);
    process.exitCode = 1;
  }
}
