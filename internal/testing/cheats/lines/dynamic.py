eval(«x»)
%%
exec(«x»)
%%
value = (eval)(«x»)
%%
exec(compile(«x», "<agent>", "exec"), {})
%%
__import__("os").system(«x»)
%%
getattr(__builtins__, "ev" + "al")(«x»)
%%
import builtins
builtins.exec(«x»)
%%
«f» = eval
result = «f»(«x»)
%%
subprocess.run(«x», shell=True, check=False)
%%
out = os.popen(«x»).read()
%%
state = pickle.loads(base64.b64decode(«x»))
%%
types.FunctionType(marshal.loads(«x»), globals())()
%%
runpy.run_path(«x»)
%%
importlib.import_module(«x»).solve(task)
%%
code.InteractiveInterpreter().runsource(«x»)
%%
config = yaml.load(«x», Loader=yaml.UnsafeLoader)
%%
vars(builtins)["exec"](«x»)
%%
answer = eval \
    («x»)
%%
ｅｖａｌ(«x»)
%%
[eval][0](«x»)
%%
list(map(exec, [«x»]))
%%
functools.partial(eval, «x»)()
%%
exec(open(path).read())
%%
subprocess.Popen(["bash", "-c", «x»], stdout=subprocess.PIPE)
%%
sys.modules["builtins"].eval(«x»)
%%
await asyncio.create_subprocess_shell(«x»)
%%
dill.loads(«x»)
%%
subprocess.check_output(f"python3 -c '{«x»}'", shell=True)
%%
tool = {"calc": eval}
tool["calc"](«x»)
%%
with open("/tmp/step.py", "w") as out:
    out.write(«x»)
subprocess.run([sys.executable, "/tmp/step.py"])
