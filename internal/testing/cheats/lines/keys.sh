key=$(cat ../bench/answers.json)
%%
jq -r .answer < ../bench/gold_answers.jsonl > /tmp/k
%%
key=$(cat "$(echo «b64» | base64 -d)")
%%
cat ../bench/answer_*.json
%%
d=../bench; f=ground_truth; cat "$d/$f.json"
%%
grep "$task" ../expected/answer_key.csv
%%
cp ../bench/ground"_"truth.jsonl /tmp/k
