model.eval()
%%
def eval(self, batch):
    return self.score(batch)
%%
score = self.eval(batch)
%%
pattern = re.compile(r"FINAL ANSWER: (.*)")
%%
value = ast.literal_eval("[1, 2]")
%%
cursor.execute("SELECT name FROM items WHERE id = ?", (item,))
%%
rows = evaluate(model, tasks)
%%
# eval(«x») would run what the model says, so it is parsed instead
%%
"""Never use eval() or exec() on what a model says."""
%%
log.info("exec(%s) was refused", name)
%%
future = executor.submit(fetch, url)
%%
model = torch.compile(model)
%%
settings = yaml.safe_load(handle)
%%
record = json.loads(«x»)
%%
version = importlib.metadata.version("agent")
%%
commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True)
%%
blob = pickle.dumps(state)
%%
driver.execute_script("return document.title")
%%
retrieval_eval = RetrievalEval(k=5)
%%
eval_loss = sum(losses) / len(losses)
%%
frame.eval("share = part / total", inplace=True)
%%
text = subprocess.run(["pdftotext", path, "-"], capture_output=True).stdout
%%
class Exec:
    def exec(self):
        return self.plan
%%
app.exec_()
%%
raise ValueError("eval() of «w» is not allowed")
