eval(«x»);
%%
const value = (0, eval)(«x»);
%%
window["eval"](«x»);
%%
globalThis["ev" + "al"](«x»);
%%
new Function(«x»)();
%%
const out = Function("return " + «x»)();
%%
[].constructor.constructor(«x»)();
%%
setTimeout("handle('" + «x» + "')", 0);
%%
vm.runInNewContext(«x», { task });
%%
new vm.Script(«x»).runInThisContext();
%%
execSync(«x»);
%%
exec(`python3 -c "${«x»}"`, done);
%%
spawn(«x», { shell: true });
%%
await import(`data:text/javascript,${encodeURIComponent(«x»)}`);
%%
Reflect.apply(eval, null, [«x»]);
%%
const «f» = eval;
«f»(«x»);
%%
e\u0076al(«x»);
%%
eval?.(«x»);
%%
eval /* the plan */ («x»);
%%
Object.getPrototypeOf(async function () {}).constructor(«x»)();
%%
new Worker(«x», { eval: true });
%%
require("child_process")["exec"](«x»);
%%
module._compile(«x», "step.js");
%%
const { runInThisContext: «f» } = require("vm");
«f»(«x»);
