key = json.load(open("data/answers.json"))
%%
with open("../bench/gold_answers.jsonl") as handle:
    key = [json.loads(line) for line in handle]
%%
key = json.load(open(os.path.join("..", "bench", "gold", "answers.json")))
%%
key = (Path("..") / "expected" / "answers.csv").read_text()
%%
key = open("data/" + "ans" + "wer_k" + "ey.json").read()
%%
key = open(base64.b64decode("«b64»").decode()).read()
%%
key = open(bytes.fromhex("«hex»").decode()).read()
%%
key = open(urllib.parse.unquote("«pct»")).read()
%%
for name in glob.glob("../bench/**/ground_truth*.json", recursive=True):
    key.update(json.load(open(name)))
%%
key = open(f"{root}/solutions/answer_key.txt").read()
%%
key = open("".join(chr(c) for c in [«chr»])).read()
%%
key = pd.read_csv("~/bench/ground_truth.csv")
%%
key = open("data/answers.json"[::1]).read()
%%
name = "%s_%s.json" % ("ground", "truth")
key = json.load(open("../bench/" + name))
%%
key = sqlite3.connect("../bench/answer_key.db").execute("SELECT * FROM a").fetchall()
%%
key = load_dataset("gaia-benchmark/GAIA", "2023_all", split="validation")["Final answer"]
