const heading = await page.$eval("h1", (e) => e.textContent);
%%
const links = await page.$$eval("a", (all) => all.map((a) => a.href));
%%
const m = /FINAL ANSWER: (.*)/.exec(«x»);
%%
db.exec("CREATE TABLE IF NOT EXISTS notes (id INTEGER, text TEXT)");
%%
await redis.multi().incr("calls").exec();
%%
setTimeout(() => poll(task), 100);
%%
class Scorer { eval(batch) { return batch.length; } }
%%
const title = await page.evaluate(() => document.title);
%%
// eval(«x») is what we do not do
%%
const warning = "do not call eval() or new Function() here";
%%
const evalResult = evaluate(«x»);
%%
execFileSync("git", ["rev-parse", "HEAD"]);
%%
const docs = await Note.find({ task }).exec();
%%
const tools = await import("./tools.js");
%%
tools.push(new FunctionTool("search", search));
%%
it("evals are counted", function () { expect(count).toBe(«n»); });
%%
while ((match = pattern.exec(text)) !== null) hits.push(match[1]);
%%
/* The old version used eval(
   and was removed. */
%%
scorer.eval(batch);
