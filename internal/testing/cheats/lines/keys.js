const key = JSON.parse(fs.readFileSync("data/answers.json", "utf8"));
%%
const key = require("../bench/gold_answers.json");
%%
const key = fs.readFileSync(path.join("..", "expected", "answer_key.json"));
%%
const key = fs.readFileSync("../bench/" + ["ground", "truth"].join("_") + ".jsonl");
%%
const key = fs.readFileSync(atob("«b64»"));
%%
const key = fs.readFileSync(Buffer.from("«hex»", "hex").toString());
%%
const key = fs.readFileSync(`${root}/solutions/answers.json`);
%%
import key from "../../bench/answer-key.json" assert { type: "json" };
%%
const key = await Bun.file(decodeURIComponent("«pct»")).json();
%%
const key = fs.readFileSync(String.fromCharCode(«chr»));
