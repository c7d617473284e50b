medals = pd.read_csv("attachments/gold_medals.csv")
%%
labels = json.load(open("config/labels.json"))
%%
table = open("attachments/solutions.csv").read()
%%
with open("out/answers.jsonl", "w") as handle:
    handle.write(json.dumps(record) + "\n")
%%
fish = open("data/goldfish_2019.csv").read()
%%
names = json.load(open("models/labels.json"))["classes"]
%%
text = open("attachments/golden_gate.txt").read()
%%
phones = open("data/answering_machines.txt").read()
%%
prices = pd.read_csv("data/gold_prices.csv")
%%
Path("out/answer.txt").write_text(final)
%%
flowers = open("data/marigold.json").read()
%%
shelf = open("attachments/buffer_solutions.csv").read()
