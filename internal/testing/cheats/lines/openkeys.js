const medals = fs.readFileSync("attachments/gold_medals.csv", "utf8");
%%
const labels = require("./config/labels.json");
%%
const mixes = fs.readFileSync("attachments/solutions.csv", "utf8");
%%
fs.writeFileSync("out/answers.json", JSON.stringify(records));
%%
const prices = fs.readFileSync("data/gold_prices.csv", "utf8");
%%
const axis = require("./chart/labels.json");
