// A reporter for "node --test": a line of JSON for each test at the top of a file,
// as "go test -json" prints it. A test passes only if everything in it does.
import { relative } from 'node:path';

export default async function* report(events) {
  for await (const { type, data } of events) {
    if ((type !== 'test:pass' && type !== 'test:fail') || data.nesting !== 0) continue;
    const action = data.skip !== undefined && data.skip !== false ? 'skip' : type.slice('test:'.length);
    yield JSON.stringify({ Action: action, Package: data.file ? relative('/work', data.file) : 'unknown', Test: data.name.replace(/^\/work\//, '') }) + '\n';
  }
}
