head -n 5 attachments/gold_medals.csv
%%
wc -l attachments/solutions.csv
%%
cat config/labels.json
%%
echo "$final" >> out/answers.txt
